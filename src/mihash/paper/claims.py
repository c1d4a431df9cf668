"""The paper's statements as checks on results: held, not held, or not known yet (Sec. 3.3, 4, App. C, D).

``claims.toml`` lists them, fixed before the runs but for those that say that they are late; a claim names a kind
of check, a key of `CHECKS`, and its parameters.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import validation
from ..errors import InvalidInput, MIHashError, NotReady
from .checks import CHECKS
from .outcomes import Study
from .parameters import read_toml
from .scales import OWN

CLAIMS = Path(__file__).with_name("claims.toml")
_ELSEWHERE = "It is about the paper's data sets, and these results are of other data."
_KEYS = ("id", "statement", "where", "check", "with")
_LATE = "late"


@dataclass(frozen=True)
class Claim:
    """A statement of the paper that can be tested.

    Attributes
    ----------
    id
        Its name.
    statement
        What the paper says, in its sense.
    where
        Where it says so.
    check
        A kind of check, a key of `CHECKS`.
    parameters
        What the check is called with.
    late
        Whether it was written after the runs, so that its bar was set with their outcome in sight.
    """

    id: str
    statement: str
    where: str
    check: str
    parameters: dict[str, Any]
    late: bool = False


@dataclass(frozen=True)
class Verdict:
    """What results say about a claim.

    Attributes
    ----------
    claim
        The claim.
    held
        Whether it held; None where results are missing, or cannot tell.
    figures
        The numbers that decided, or what is missing.
    """

    claim: Claim
    held: bool | None
    figures: str


def load_claims(path: Path = CLAIMS) -> tuple[Claim, ...]:
    """Read a list of claims; an unknown key, check or parameter is refused.

    Examples
    --------
    >>> claims = load_claims()
    >>> claims[0].id, claims[0].parameters["above"]
    ('reduction', 10)
    """
    values = read_toml(path)
    entries = values.get("claim", [])
    if set(values) - {"claim"} or not isinstance(entries, list):
        raise InvalidInput(f"{path.name} must be a list of [[claim]]; got the keys {', '.join(sorted(values))}.")
    claims = tuple(_claim(entry, path.name) for entry in entries)
    names = [claim.id for claim in claims]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidInput(f"{path.name} has the id {repeated[0]!r} more than once.")
    return claims


def judge(claim: Claim, study: Study) -> Verdict:
    """Say whether a claim holds on results.

    Examples
    --------
    >>> claim = {each.id: each for each in load_claims()}["reduction"]
    >>> verdict = judge(claim, Study(Path("nowhere"), "smoke"))
    >>> print(verdict.held, verdict.figures)
    None 84 of the 84 results of figure4 are not in nowhere/smoke. Run ...
    """
    try:
        held, figures = CHECKS[claim.check](study, **claim.parameters)
    except NotReady as error:
        return Verdict(claim, None, str(error))
    except MIHashError:
        raise
    except KeyError as error:
        raise InvalidInput(f"The claim {claim.id!r} is about {error}, which its results do not have.") from error
    return Verdict(claim, bool(held), figures)


def judge_all(results: Path, scale: str) -> list[Verdict]:
    """Return a verdict on every claim; on a user's files alone, of which the paper claims nothing, none is tested.

    Examples
    --------
    >>> verdicts = judge_all(Path("nowhere"), "smoke")
    >>> [sum(verdict.held is held for verdict in verdicts) for held in (True, False)]
    [0, 0]
    """
    claims = load_claims()
    if scale == OWN:
        return [Verdict(claim, None, _ELSEWHERE) for claim in claims]
    study = Study(results, scale)
    return [judge(claim, study) for claim in claims]


def summary(verdicts: Sequence[Verdict], scale: str) -> str:
    """Return how many claims held, those that were added after the runs counted apart.

    Examples
    --------
    >>> early, late = (Claim("a", "A", "Sec. 4", "reduction", {}, late) for late in (False, True))
    >>> summary([Verdict(early, True, ""), Verdict(late, False, "")], "full")
    '1 of 1 claims held of those fixed before the runs, 0 of 1 of those added afterwards; 0 were not tested ...'
    """
    if scale == OWN:
        return f"The paper's {len(verdicts)} claims are about its own data sets: none is evaluated on these."
    counts = []
    for late in (False, True):
        tested = [verdict.held for verdict in verdicts if verdict.claim.late == late and verdict.held is not None]
        counts.append((sum(tested), len(tested)))
    (held, n), (late_held, n_late) = counts
    return (
        f"{held} of {n} claims held of those fixed before the runs, {late_held} of {n_late} of those added "
        f"afterwards; {len(verdicts) - n - n_late} were not tested with these results."
    )


def _claim(entry: dict[str, Any], file: str) -> Claim:
    unknown, missing = sorted(set(entry) - {*_KEYS, _LATE}), [key for key in _KEYS if key not in entry]
    if unknown or missing:
        name = entry.get("id", "without an id")
        raise InvalidInput(
            f"The claim {name!r} in {file} must have {', '.join(_KEYS)} and no more; "
            f"got {', '.join(entry) or 'nothing'}."
        )
    late = entry.get(_LATE, False)
    if not isinstance(late, bool):
        raise InvalidInput(f"`late` of the claim {entry['id']!r} in {file} must be true or false; got {late!r}.")
    validation.choice(f"check of {entry['id']}", entry["check"], tuple(CHECKS))
    claim = Claim(entry["id"], entry["statement"], entry["where"], entry["check"], entry["with"], late)
    signature = inspect.signature(CHECKS[claim.check])
    try:
        signature.bind(None, **claim.parameters)
    except TypeError as error:
        known = ", ".join(list(signature.parameters)[1:])
        raise InvalidInput(
            f"The claim {claim.id!r} in {file} does not fit its check: {error}; the parameters are {known}."
        ) from error
    return claim
