"""Distances to neighbours and to others, before and after learning (Fig. 1 and 6).

One stream of the protocol under the trigger with theta 0. Fig. 6 is p+ and p- averaged over the queries; Fig. 1 is
one query alone under a bad mapping, the first, and a good one, that of the table at the end.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import one_thread
from ..mapping import HashMapping
from ..online import learner_class
from ..ranking import distance_distributions, mean_average_precision
from ..trigger import TriggerUpdate
from .correlation import query_information
from .datasets import Split
from .definition import load_parameters, tuned_arguments
from .passes import learn_once, pass_seed
from .results import versions, write_result
from .scales import stage
from .sources import find_source

N_BITS = 32
THETA = 0.0
TRIAL = 0

Codes = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def distributions_path(results: Path, scale: str, name: str, method: str) -> Path:
    """Return where the result of a data set, by the name of its `Source`, and a method lies.

    Examples
    --------
    >>> distributions_path(Path("results"), "smoke", "cifar10", "mihash").as_posix()
    'results/smoke/distributions/cifar10-mihash.json'
    """
    return results / scale / "distributions" / f"{name}-{method}.json"


def run_distributions(
    name: str, method: str, results: Path, scale: str, data: Path | None = None, seed: int = 0
) -> Path:
    """Learn from a stream, and write the distances before and after; return the file.

    A file that is there stays as it is. The pass is the first trial of the online experiments, so mAP after it is
    theirs. The one query is the one whose information rose by the median: neither the best nor the worst.

    Parameters
    ----------
    name
        One of the paper's data sets, and what stands for it depends on the scale; or the path of a file.
    method
        A learner by name.
    results
        The folder of results.
    scale
        ``"smoke"``, ``"small"`` or ``"full"``; for a file any, which then only names the folder.
    data
        The folder of the features, at full scale.
    seed
        Seeds the division and the order of the data.

    Examples
    --------
    >>> import json, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = json.loads(run_distributions("cifar10", "mihash", Path(folder), "smoke").read_text())
    >>> round(result["before"]["map"], 1), result["after"]["map"] > 0.7
    (0.5, True)
    """
    source = find_source(name)
    path = distributions_path(results, scale, source.name, method)
    if path.exists():
        return path
    where = stage(name, scale, data, seed)
    split, protocol = where.split(TRIAL), where.protocol
    n_stream = len(split.stream)
    parameters = tuned_arguments(load_parameters(), method, source.name, N_BITS)
    with one_thread():
        made = learn_once(
            split,
            learner_class(method)(N_BITS, seed=pass_seed(TRIAL, seed), **parameters),
            [TriggerUpdate(THETA, protocol.interval)],
            np.array([n_stream], dtype=np.int64),
            reservoir_size=min(n_stream, protocol.reservoir_size),
            top=protocol.top,
            seed=pass_seed(TRIAL, seed),
        )
        codes = [_encode(split, mapping) for mapping in (made.first, made.branches[0].snapshot)]
    information = [query_information(*each, split.relevant, N_BITS) for each in codes]
    query = int(np.argsort(information[1] - information[0], kind="stable")[len(split.X_query) // 2])
    before, after = (
        _distributions(each, split.relevant)
        | {
            "map": mean_average_precision(*each, split.relevant, N_BITS, top=protocol.top),
            "mi": float(values.mean()),
        }
        for each, values in zip(codes, information, strict=True)
    )
    bad, good = (
        _distributions((each[0][query : query + 1], each[1]), _of_one(split, query)) | {"mi": float(values[query])}
        for each, values in zip(codes, information, strict=True)
    )
    write_result(
        path,
        {
            "before": before,
            "after": after,
            "one_query": {"row": int(split.query_rows[query]), "bad": bad, "good": good},
            "method": method,
            "parameters": parameters,
            "n_bits": N_BITS,
            "n_queries": len(split.X_query),
            "n_items": len(split.X_base),
            "n_stream": n_stream,
            "theta": THETA,
            "updates": made.branches[0].updates,
            "top": protocol.top,
            "data": where.dataset.name,
            "scale": scale,
            "seed": seed,
            "versions": versions(),
        },
    )
    return path


def _encode(split: Split, mapping: HashMapping) -> Codes:
    return mapping.encode_rows(split.X_query), mapping.encode_rows(split.X_base)


def _distributions(codes: Codes, relevant: Any) -> dict[str, Any]:
    p_pos, p_neg = distance_distributions(*codes, relevant, N_BITS)
    return {
        "p_pos": p_pos.tolist(),
        "p_neg": p_neg.tolist(),
        "overlap": float(np.minimum(p_pos, p_neg).sum()),
    }


def _of_one(split: Split, query: int) -> Any:
    """Return what is relevant to one query alone, in the form that `mihash.ranking` takes."""
    if isinstance(split.relevant, tuple):
        return split.relevant[0][query : query + 1], split.relevant[1]
    return split.relevant[query : query + 1]
