"""mAP of the codes that a run of Setting 2 left, measured with `mihash.mean_average_precision`."""

from pathlib import Path

import numpy as np

from ...errors import CorruptStore
from ..results import read_result, write_result


def score(path: Path) -> float:
    """Measure mAP of a run's codes with `mihash.mean_average_precision`, and write it into the run's JSON.

    The codes lie beside the JSON, so that it can be done elsewhere, and later.
    """
    from ...ranking import mean_average_precision

    result = read_result(path)
    if result is None or "metrics" not in result:
        raise CorruptStore(f"{path} is no result of Setting 2.")
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as saved:
        relevant = (saved["query_labels"].astype(np.int64), saved["base_labels"].astype(np.int64))
        value = mean_average_precision(saved["query_codes"], saved["base_codes"], relevant, result["n_bits"])
    result["metrics"]["mAP"] = value
    write_result(path, result)
    return value
