"""Poison rows against every learner, through an index on the disk: nothing stops the log (soak/poison.py)."""

import pytest
from soak.poison import PLACES, POISONS, TOO_LONG, poison

from mihash.online import LEARNERS

ALONE = {"subnormal": (5, 505, 610), "all subnormal": (505,), "outlier of 1e6": PLACES}  # one may hide the next
CASES = [(name, (place,)) for name, places in ALONE.items() for place in places]
CASES += [(name, PLACES) for name in (*POISONS, TOO_LONG) if name not in ALONE]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # an overflow warns and goes on, as for a user
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(("name", "places"), CASES, ids=lambda value: str(value).replace(", ", " "))
def test_poison_stops_nothing(tmp_path, name, places, learner, metric):
    reason = poison(tmp_path / "index", learner, metric, name, places)
    assert reason is None or reason.strip()
