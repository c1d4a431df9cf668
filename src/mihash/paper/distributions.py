"""Distances to neighbours and to others, before and after learning (Fig. 1 and 6).

One stream of the protocol under the trigger with theta 0. Fig. 6 is p+ and p- averaged over the queries; Fig. 1 is
one query alone under a bad mapping, the first, and a good one, that of the table at the end.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import one_thread
from ..mapping import HashMapping
from ..ranking import distance_distributions, mean_average_precision
from ..trigger import TriggerUpdate
from .correlation import query_information
from .datasets import Split
from .jobs import Job
from .scales import Stage

THETA = 0.0

Codes = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def measure_distributions(where: Stage, job: Job) -> dict[str, Any]:
    """Learn from a stream, and return the distances before and after.

    The pass is the first trial of the online experiments, so mAP after it is theirs. The one query is that whose
    information rose by the median: neither the best nor the worst.

    Parameters
    ----------
    where
        The data set and its protocol, with the seed.
    job
        The learner with its arguments and the code length.

    Examples
    --------
    >>> from mihash.paper.scales import stage
    >>> job = Job("distributions", "cifar10", "mihash", (), 32)
    >>> result = measure_distributions(stage("cifar10", "smoke"), job)
    >>> round(result["before"]["map"], 1), result["after"]["map"] > 0.7
    (0.5, True)
    """
    split, protocol, n_bits = where.split(job.trial), where.protocol, job.n_bits
    n_stream = len(split.stream)
    end = np.array([n_stream], dtype=np.int64)
    made = where.learn(split, job, [TriggerUpdate(THETA, protocol.interval)], end)
    with one_thread():
        codes = [_encode(split, mapping) for mapping in (made.first, made.branches[0].snapshot)]
    information = [query_information(*each, split.relevant, n_bits) for each in codes]
    query = int(np.argsort(information[1] - information[0], kind="stable")[len(split.X_query) // 2])
    before, after = (
        _distributions(each, split.relevant, n_bits)
        | {
            "map": mean_average_precision(*each, split.relevant, n_bits, top=protocol.top),
            "mi": float(values.mean()),
        }
        for each, values in zip(codes, information, strict=True)
    )
    bad, good = (
        _distributions((each[0][query : query + 1], each[1]), _of_one(split, query), n_bits)
        | {"mi": float(values[query])}
        for each, values in zip(codes, information, strict=True)
    )
    return {
        "before": before,
        "after": after,
        "one_query": {"row": int(split.query_rows[query]), "bad": bad, "good": good},
        "method": job.method,
        "parameters": dict(job.parameters),
        "n_bits": n_bits,
        "n_queries": len(split.X_query),
        "n_items": len(split.X_base),
        "n_stream": n_stream,
        "theta": THETA,
        "updates": made.branches[0].updates,
        "top": protocol.top,
    }


def _encode(split: Split, mapping: HashMapping) -> Codes:
    return mapping.encode_rows(split.X_query), mapping.encode_rows(split.X_base)


def _distributions(codes: Codes, relevant: Any, n_bits: int) -> dict[str, Any]:
    p_pos, p_neg = distance_distributions(*codes, relevant, n_bits)
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
