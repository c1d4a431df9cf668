"""The table of online learners: what each reaches at the end and early in the stream, and what that costs."""

from collections.abc import Iterable

import numpy as np

from .jobs import Job
from .outcomes import Outcome

EARLY = 0.05  # of the stream


def learner_rows(found: dict[Job, Outcome]) -> Iterable[tuple[Outcome, dict[str, str]]]:
    """Yield a row for each learner, data set and code length: means over the trials.

    "early" is mAP after a twentieth of the stream, between the two checkpoints around it.

    Examples
    --------
    >>> trial = {"examples": [0, 100], "precisions": [0.2, 0.4], "final": 0.4, "area": 0.3}
    >>> job = Job("online", "cifar10", "lsh", (), 32)
    >>> outcome = Outcome((trial | {"times": {"learning_s": 0.001}},), job)
    >>> next(iter(learner_rows({job: outcome})))[1]
    {'final mAP': '0.400', 'AUC': '0.300', 'early': '0.210', 'us per example': '10.0'}
    """
    for outcome in found.values():
        early = [early_precision(trial["examples"], trial["precisions"]) for trial in outcome.trials]
        n = np.mean([trial["examples"][-1] for trial in outcome.trials])
        yield (
            outcome,
            {
                "final mAP": f"{outcome.mean('final'):.3f}",
                "AUC": f"{outcome.mean('area'):.3f}",
                "early": f"{np.mean(early):.3f}",
                "us per example": f"{1e6 * outcome.mean('learning_s') / n:.1f}",
            },
        )


def early_precision(examples: list[int], precisions: list[float]) -> float:
    """Return mAP after a twentieth of the stream, by a line between the checkpoints."""
    return float(np.interp(EARLY * examples[-1], examples, precisions))
