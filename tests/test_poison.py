"""Poison rows against every learner, through an index on the disk: nothing stops the log (soak/poison.py)."""

import pytest
from soak.poison import LENGTHS, PLACES, POISONS, poison

from mihash.online import LEARNERS

ALONE = {"subnormal": (5, 300, 505), "all subnormal": (505,), "outlier of 1e6": PLACES}  # one may hide the next
CASES = [(name, (place,)) for name, places in ALONE.items() for place in places]
CASES += [(name, PLACES) for name in (*POISONS, *LENGTHS) if name not in ALONE]


@pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # as for a user: arithmetic that overflows warns, and goes on
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(("name", "places"), CASES, ids=lambda value: str(value).replace(", ", " "))
def test_poison_stops_nothing(tmp_path, name, places, learner, metric, record_property):
    reason = poison(tmp_path / "index", learner, metric, name, places)
    record_property("reason", reason)
    assert reason is None or reason.strip()
