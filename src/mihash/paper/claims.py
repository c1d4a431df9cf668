"""The paper's statements as checks on results: held, not held, not settled or not tested (Sec. 3.3, 4, App. C, D).

``claims.toml`` lists them, and says which were changed since they were first committed, and which were added after
the first runs. A claim names a kind of check, a key of `CHECKS`, and its parameters.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import validation
from ..errors import InvalidInput, MIHashError, NotReady
from .checks import CHECKS
from .definition import load_definition
from .outcomes import Study
from .parameters import read_toml
from .scales import OWN

CLAIMS = Path(__file__).with_name("claims.toml")
_ONLINE = "online hashing"
_ABOUT = {"batch": "batch methods, Setting 1", "images": "end to end, Setting 2"}
_ELSEWHERE = "It is about the paper's data sets, and these results are of other data."
_KEYS = ("id", "statement", "where", "check", "with")
_OPTIONAL = ("changed", "late")
GROUPS = ("as first committed", "changed since", "added since")


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
    changed
        When and how it was changed since it was first committed, with results in sight; nothing where it was not.
    late
        Whether it was written after the first runs, so that its bar was set with their outcome in sight.
    """

    id: str
    statement: str
    where: str
    check: str
    parameters: dict[str, Any]
    changed: tuple[str, ...] = ()
    late: bool = False

    @property
    def group(self) -> str:
        """Which of `GROUPS` it is in."""
        return GROUPS[2 if self.late else 1 if self.changed else 0]

    @property
    def about(self) -> str:
        """What it is about: online hashing, batch methods or networks."""
        return _ABOUT.get(load_definition(str(self.parameters.get("definition", "figure4"))).kind, _ONLINE)


@dataclass(frozen=True)
class Verdict:
    """What results say about a claim.

    Attributes
    ----------
    claim
        The claim.
    held
        Whether it held; None where it was not tested, or is not settled.
    figures
        The numbers that decided, or what is missing.
    tested
        Whether there were results to test it with.
    """

    claim: Claim
    held: bool | None
    figures: str
    tested: bool = True

    @property
    def word(self) -> str:
        """Held, not held, not settled (the numbers differ by less than the noise over trials) or not tested.

        Examples
        --------
        >>> claim = Claim("a", "A", "Sec. 4", "reduction", {})
        >>> [Verdict(claim, None, "", tested).word for tested in (True, False)]
        ['not settled', 'not tested']
        """
        if not self.tested:
            return "not tested"
        return "not settled" if self.held is None else "held" if self.held else "not held"


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
    None 102 of the 102 results of figure4 are not in nowhere/smoke. Run ...
    """
    try:
        held, figures = CHECKS[claim.check](study, **claim.parameters)
    except NotReady as error:
        return Verdict(claim, None, str(error), tested=False)
    except MIHashError:
        raise
    except KeyError as error:
        raise InvalidInput(f"The claim {claim.id!r} is about {error}, which its results do not have.") from error
    return Verdict(claim, None if held is None else bool(held), figures)


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
        return [Verdict(claim, None, _ELSEWHERE, tested=False) for claim in claims]
    study = Study(results, scale)
    return [judge(claim, study) for claim in claims]


def summary(verdicts: Sequence[Verdict], scale: str) -> str:
    """Return how many claims held: as first committed, changed since and added since, each counted apart.

    Examples
    --------
    >>> early, late = (Claim("a", "A", "Sec. 4", "reduction", {}, late=late) for late in (False, True))
    >>> summary([Verdict(early, True, ""), Verdict(late, None, "")], "full")
    '1 of 2 claims held: 1 of 1 as first committed, 0 of 1 added since. 1 is not settled: ...'
    """
    if scale == OWN:
        return f"The paper's {len(verdicts)} claims are about its own data sets: none is evaluated on these."
    tested = [verdict for verdict in verdicts if verdict.tested]
    parts = []
    for group in GROUPS:
        own = [verdict.held is True for verdict in tested if verdict.claim.group == group]
        parts += [f"{sum(own)} of {len(own)} {group}"] if own else []
    text = f"{sum(verdict.held is True for verdict in tested)} of {len(tested)} claims held"
    text += f": {', '.join(parts)}." if parts else "."
    unsettled = sum(verdict.held is None for verdict in tested)
    if unsettled:
        verb = "is" if unsettled == 1 else "are"
        text += f" {unsettled} {verb} not settled: the numbers differ by less than the noise over trials."
    untested = len(verdicts) - len(tested)
    if untested:
        text += f" {untested} {'was' if untested == 1 else 'were'} not tested with these results."
    return text


def tally(verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    """Return a table of how many claims held of those tested: what they are about, and a column for each group.

    Examples
    --------
    >>> claims = [Claim(name, "A", "Sec. 4", "reduction", {}, late=name == "b") for name in "abc"]
    >>> tally([Verdict(claim, held, "") for claim, held in zip(claims, (True, False, None))])
    [('about', 'as first committed', 'added since'), ('online hashing', '1 of 2', '0 of 1')]
    """
    tested = [verdict for verdict in verdicts if verdict.tested]
    groups = [group for group in GROUPS if any(verdict.claim.group == group for verdict in tested)]
    rows = [("about", *groups)]
    for about in dict.fromkeys(verdict.claim.about for verdict in tested):
        cells = []
        for group in groups:
            own = [each.held is True for each in tested if (each.claim.about, each.claim.group) == (about, group)]
            cells.append(f"{sum(own)} of {len(own)}" if own else "")
        rows.append((about, *cells))
    return rows


def _claim(entry: dict[str, Any], file: str) -> Claim:
    unknown, missing = sorted(set(entry) - {*_KEYS, *_OPTIONAL}), [key for key in _KEYS if key not in entry]
    if unknown or missing:
        name = entry.get("id", "without an id")
        raise InvalidInput(
            f"The claim {name!r} in {file} must have {', '.join(_KEYS)} and no more; "
            f"got {', '.join(entry) or 'nothing'}."
        )
    late, changed = entry.get("late", False), entry.get("changed", [])
    if not isinstance(late, bool):
        raise InvalidInput(f"`late` of the claim {entry['id']!r} in {file} must be true or false; got {late!r}.")
    if not isinstance(changed, list) or not all(isinstance(each, str) for each in changed):
        raise InvalidInput(f"`changed` of the claim {entry['id']!r} in {file} must be texts; got {changed!r}.")
    validation.choice(f"check of {entry['id']}", entry["check"], tuple(CHECKS))
    claim = Claim(
        entry["id"], entry["statement"], entry["where"], entry["check"], entry["with"], tuple(changed), late
    )
    signature = inspect.signature(CHECKS[claim.check])
    try:
        signature.bind(None, **claim.parameters)
    except TypeError as error:
        known = ", ".join(list(signature.parameters)[1:])
        raise InvalidInput(
            f"The claim {claim.id!r} in {file} does not fit its check: {error}; the parameters are {known}."
        ) from error
    return claim
