"""How many candidates' vectors a search reads to find the wanted share of the true nearest.

Some stored items serve as queries. Their true nearest others are found once, from all vectors. Then, for each
number of candidates, the index counts how many of these are among the first candidates by code and margins. It
chooses the smallest number that reaches the target with a margin of two standard errors. For a target of 0.95 or
more it takes at least ten for each result and 100 in all, which cost little. It measures again for a new
version of the codes, when a fifth of the items have come or gone, and after an alarm of the drift watch.

Candidates are the first by margins among the codes that are nearest in Hamming distance. If lengths or a few
features decide what is near, the true nearest are not among the few nearest codes. So the number of codes to rank
by margins is chosen as well: the pair that costs least.

Codes that were learned from labels bring items of one class together, not those that are near. Chasing the nearest
vectors would undo that. So with labels the number is fixed, unless the caller names a recall. Many items may then
have the same code. If some of these are candidates, all are, up to 4,000: a stored vector finds its item.

If no choice reaches the target, a table of up to 33 million numbers is searched exactly: its vectors are held
in memory, which is faster than looking up thousands of them.

For inner products, queries seldom resemble the items, so a measurement with items is not enough: a minimum number
of candidates is read for any target.
"""

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import MIHashError
from ..search import reach
from .candidate_choice import LOOKUP, Choice, Trial
from .held_vectors import EVERY, MOST_NUMBERS, n_held
from .question import Question
from .rescoring import PRODUCT
from .sqlite.settings import write_settings

if TYPE_CHECKING:
    from .edition import Edition, Published
    from .table import Table

RECALL = 0.95
"""The target of a search that names none."""

MEASURED = "recall_choices"
"""The setting of a table that has what was measured."""

MOST_TIED = 4000
"""How many candidates are looked up if so many have the same code."""

_QUERIES = 100
_SEED = 2**31 - 1  # draws other items than `evaluate` does by default
_OTHER, _SAME = 5, 100  # a fifth of the items are others: measure again; a hundredth: find the true nearest again
_SURE = 2  # standard errors by which the measured recall must be above the target
_FEWEST = 100  # candidates that cost so little that nothing is measured
_PER_RESULT = 10
_MOST, _MOST_ASKED = 50, 10  # every 50th vector at most, every 10th where the caller has set the target
_CHEAP = 2000  # vectors that may be looked up however few there are
_WIDER = 4  # times more codes are ranked in each trial
_AT_ONCE = 1 << 23  # numbers in the vectors of a table that is measured while the search waits
_SAFE, _SAFE_RANKED = 1000, 32_000  # candidates, and codes that are ranked, while a larger one is measured
_WIDTH = 10  # of the numbers of results that are measured: 10, 20, 40 and so on


_Name = tuple[int, float, bool]
"""How many results, the target, and whether margins are used."""


class _Moment(NamedTuple):
    """When something was measured: the version of the codes, the newest row and the number of items."""

    version: int
    last: int
    n_items: int

    def is_like(self, now: "_Moment", share: int) -> bool:
        """Tell whether the version is the same, and fewer than one in ``share`` items have come or gone.

        Examples
        --------
        >>> then = _Moment(3, last=999, n_items=1000)
        >>> [then.is_like(_Moment(3, *now), share=5) for now in ((1198, 1199), (1200, 1000), (999, 700))]
        [True, False, False]
        """
        came = now.last - self.last  # an item that was replaced counts as new
        gone = self.n_items + came - now.n_items
        return self.version == now.version and came >= 0 and share * max(came, gone) < max(self.n_items, share)


_NEVER = _Moment(-1, -1, 0)


class _Truth(NamedTuple):
    """Items as queries, and their true nearest others; and when these were found."""

    ids: NDArray[np.int64]
    queries: NDArray[np.float32]
    nearest: list[NDArray[np.int64]]
    k: int
    when: _Moment


class RecallTarget:
    """Chooses how many candidates to look up, for a table.

    A large table is measured in a thread of its own; until that has ended, searches use what was known before, or
    1,000 candidates of 32,000 ranked codes. What was measured is stored with the table, so that it is not measured
    again when opened.

    Parameters
    ----------
    table
        The table that is searched.

    Attributes
    ----------
    holds
        Whether a small table may be searched exactly, by vectors in memory.
    """

    def __init__(self, table: "Table") -> None:
        self._table, self.holds = table, True
        self._measuring = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._truth: _Truth | None = None
        self._factors_pay = (_NEVER, False)
        self._choices: dict[_Name, tuple[_Moment, Choice]] = {}
        self._stored: str | None = None  # what of this is on the disk, as text

    def chosen(self, question: Question) -> Question:
        """Return a question with the number of candidates, where it leaves that to its recall."""
        if question.rescore is not None or question.radius is not None:
            return question
        choice = self.choice(question.k, question.recall, question.margins)
        if question.where is not None and choice.recall is not None:
            choice = choice.for_filters()
        found = replace(question, rescore=choice.rescore, n_ranked=choice.n_ranked, most_tied=MOST_TIED)
        return replace(found, compares_all=choice.rescore == EVERY)

    def choice(
        self, k: int, recall: float | None = None, margins: bool | None = None, *, wait: bool = False
    ) -> Choice:
        """Return how many candidates reach a recall of the k nearest; measured if it was not yet.

        Without ``wait``, a large table is measured in the background, and this returns a safe number meanwhile.
        """
        edition = self._table.edition
        wide = _WIDTH
        while wide < k:
            wide *= 2
        few = max(_FEWEST, _PER_RESULT * wide)
        labelled = recall is None and self._table.label_kind is not None
        if edition is None or edition.n_items <= few or labelled:
            return Choice(few, None)
        name = (wide, RECALL if recall is None else recall, margins is not False)
        most = max(few, most_candidates(edition.n_items, _MOST if recall is None else _MOST_ASKED))
        if self._can_hold(edition):
            most = max(few, min(most, _SAFE))
        self._read()
        if (found := self._fresh_choice(name, edition)) is not None:
            return found

        def measure() -> Choice:
            with self._measuring:
                known = self._fresh_choice(name, edition)  # another thread may have measured it meanwhile
                if known is None:
                    pay = margins is not False and self._pay(edition)
                    least = few if name[1] >= RECALL or self._table.metric == PRODUCT else wide
                    known = self._measured(wide, name[1], margins, least, most, pay)
                    self._choices[name] = self._now(edition), known
                    if all(choice.rescore < EVERY for _, choice in self._choices.values()):
                        self._table.free_vectors()
                return known

        if wait or not self._is_large(edition):
            return measure()
        self._in_background(measure)
        _, before = self._choices.get(name, (_NEVER, None))
        if before is not None and before.rescore == EVERY and self._can_hold(edition):
            return before  # by codes it would find less until the measurement ends
        known = [each for (*_, by_margins), (_, each) in list(self._choices.items()) if by_margins == name[2]]
        safe = min(most, max([few, _SAFE, *(each.rescore for each in known)]))
        return Choice(safe, None, max([_SAFE_RANKED, *(each.n_ranked or 0 for each in known)]))

    def _now(self, edition: "Edition | Published") -> _Moment:
        return _Moment(edition.version, self._table.last, edition.n_items)

    def _fresh_choice(self, name: "_Name", edition: "Edition | Published") -> Choice | None:
        when, found = self._choices.get(name, (_NEVER, None))
        return found if when.is_like(self._now(edition), _OTHER) else None

    def factors_pay(self, question: Question) -> bool:
        """Tell whether the two bytes of each code find more of the true neighbours; measured if it was not yet.

        While a large table is measured in the background: whether they did before, and at first that they do.
        """
        edition = self._table.edition
        if edition is None or not edition.has_factors or not question.by_margins(edition.mapping):
            return False
        self._read()
        when, pay = self._factors_pay
        if self._is_known(edition):
            return pay

        def measure() -> bool:
            with self._measuring:
                return self._pay(edition)

        if not self._is_large(edition):
            return measure()
        self._in_background(measure)
        return pay or when == _NEVER

    def is_measured(self, margins: bool | None) -> bool:
        """Tell whether a search without rescoring measures nothing first."""
        edition = self._table.edition
        return edition is None or not edition.has_factors or margins is False or self._is_known(edition)

    def _is_known(self, edition: "Edition | Published") -> bool:
        """Tell whether this version, with about the same items, was tested for whether the two bytes pay."""
        return self._factors_pay[0].is_like(self._now(edition), _OTHER)

    def _is_large(self, edition: "Edition | Published") -> bool:
        """Tell whether to measure in the background; the shards of an index on Ray are asked at once."""
        return edition.n_items * (self._table.n_features or 0) > _AT_ONCE and not self._on_ray

    def _can_hold(self, edition: "Edition | Published") -> bool:
        """Tell whether all vectors may be held in memory, those of deleted rows too."""
        n_rows = edition.n_items + edition.n_dead
        return self.holds and n_held(n_rows, self._table.n_features or 0) <= MOST_NUMBERS and not self._on_ray

    @property
    def _on_ray(self) -> bool:
        return bool(self._table.setting("table") == "ray")

    def _in_background(self, measure: Callable[[], object]) -> None:
        """Measure in a thread, unless one measures already; what fails is tried again by the next search."""

        def run() -> None:
            with suppress(MIHashError):  # the table was closed, or rows were purged
                measure()

        if not self._stopped and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=run, name="mihash-recall", daemon=True)
            self._thread.start()

    def expire(self) -> None:
        """Let everything be measured again, since the rows that come are others; numbers are kept until then."""
        self._truth = None
        self._choices = {name: (_NEVER, found) for name, (_, found) in self._choices.items()}

    def settle(self, timeout: float | None = None) -> bool:
        """Measure a large table for ten results, unless that is known; return False if the timeout came first.

        With a timeout of 0 nothing is begun.
        """
        end = None if timeout is None else time.monotonic() + timeout
        for _ in range(1 if timeout == 0 else 2):  # what is measured already may be something else
            edition = self._table.edition
            if timeout != 0 and edition is not None and self._is_large(edition):
                self.choice(_WIDTH)
            if not self.wait(None if end is None else max(0.0, end - time.monotonic())):
                return False
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is measured in the background; return False if the timeout came first."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Measure nothing more in the background: the table is closed."""
        self._stopped = True

    def _pay(self, edition: "Edition | Published") -> bool:
        if not edition.has_factors or edition.n_items <= _FEWEST:
            return False
        pay = self._factors_pay[1]
        if not self._is_known(edition):
            shares = [self._curve(_WIDTH, _FEWEST, None, factors)[0][-1] for factors in (False, True)]
            pay = bool(shares[1] > shares[0])
            self._factors_pay = self._now(edition), pay
        return pay

    def store(self, connection: sqlite3.Connection) -> None:
        """Store what was measured in the settings of the table, inside a transaction, unless it is there."""
        choices = [[name, when, choice] for name, (when, choice) in list(self._choices.items())]
        text = json.dumps({"pay": self._factors_pay, "choices": choices})
        if text != self._stored and (choices or self._factors_pay[0] != _NEVER):
            write_settings(connection, **{MEASURED: text})
            self._table.settled(**{MEASURED: text})
            self._stored = text

    def _read(self) -> None:
        """Take over what is stored in the settings, where nothing was measured here yet."""
        if self._choices or self._factors_pay[0] != _NEVER:
            return
        text = self._table.setting(MEASURED)
        if text is None:
            return
        found = json.loads(text)
        when, pay = found["pay"]
        self._factors_pay, self._stored = (_Moment(*when), bool(pay)), text
        self._choices = {
            (wide, recall, bool(margins)): (_Moment(*when), Choice(*choice))
            for (wide, recall, margins), when, choice in found["choices"]
        }

    def known(self) -> Choice | None:
        """Return what was chosen last for ten results and the default recall; None before such a search."""
        self._read()
        found = self._choices.get((_WIDTH, RECALL, True))
        return None if found is None else found[1]

    def _curve(
        self, k: int, width: int, margins: bool | None, factors: bool, n_ranked: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the recall among the first 1, 2, ... candidates, and its standard error."""
        truth = self._true_nearest(k)
        # One more than is wanted: each query finds itself.
        question = Question(truth.queries, width + 1, margins=margins, factors=factors, n_ranked=n_ranked)
        found = self._table.nearest(question, with_keys=False).found
        return _recalls([ids for ids, _ in found], truth, width)

    def _measured(
        self, k: int, recall: float, margins: bool | None, least: int, most: int, factors: bool
    ) -> Choice:
        """Return the cheapest choice with the recall, or the one with the most recall."""
        edition = self._table.edition
        assert edition is not None
        by_margins = Question(np.empty((0, 0), dtype=np.float32), margins=margins).by_margins(edition.mapping)
        products = edition.n_items if factors and self._table.metric == PRODUCT else 0
        first = reach(least, factors, products)
        last = reach(most, factors, products) if self._on_ray else edition.n_items  # shards send what they rank
        if self._can_hold(edition):  # to rank all codes takes longer than to compare all vectors
            last = max(first, last // _WIDER)
        best: Trial | None = None
        for n_ranked in _growing(first, last) if by_margins else [None]:
            if best is not None and best.is_enough and best.cost <= (n_ranked or 0) + LOOKUP * least:
                break
            trial = self._trial(k, recall, margins, least, most, factors, n_ranked)
            if best is None or trial.is_better(best):
                best = trial
        assert best is not None
        if not best.is_enough and self._can_hold(edition):
            return Choice(EVERY, 1.0)
        return best.choice

    def _trial(
        self,
        k: int,
        recall: float,
        margins: bool | None,
        least: int,
        most: int,
        factors: bool,
        n_ranked: int | None,
    ) -> "Trial":
        """Measure with ``n_ranked`` codes; choose the fewest candidates that reach the recall, or the most."""
        wanted = max(_SAFE, least)
        while True:
            wanted = min(wanted, most)
            curve, errors = self._curve(k, wanted, margins, factors, n_ranked)
            reached = np.flatnonzero(curve[least - 1 :] - _SURE * errors[least - 1 :] >= recall)
            if len(reached) or wanted >= most:
                place = least - 1 + int(reached[0]) if len(reached) else len(curve) - 1
                ranked = None if n_ranked is None else max(n_ranked, wanted)  # what the curve was measured with
                choice = Choice(place + 1, float(curve[place]), ranked)
                return Trial(choice, float(curve[place]), float(errors[place]), bool(len(reached)))
            wanted *= 4

    def _true_nearest(self, k: int) -> _Truth:
        """Return queries and their true neighbours; found again where there are many other rows since."""
        edition, known = self._table.edition, self._truth
        assert edition is not None
        now = self._now(edition)
        if known is not None and known.k >= k and known.when._replace(version=now.version).is_like(now, _SAME):
            return known._replace(k=k)
        ids, queries = self._table.sample(_QUERIES, _SEED)
        nearest = [found for found, _ in self._table.exact(queries, ids, k)]
        self._truth = _Truth(ids, queries, nearest, k, now)
        return self._truth


def _growing(first: int, last: int) -> Iterator[int]:
    """Yield growing numbers of codes from the first to the last."""
    while first < last:
        yield first
        first *= _WIDER
    yield last


def most_candidates(n_items: int, share: int = _MOST) -> int:
    """Return how many of ``n_items`` vectors a search reads at most.

    Examples
    --------
    >>> most_candidates(1000), most_candidates(300_000)
    (1000, 6000)
    """
    return max(min(n_items, _CHEAP), n_items // share)


def _recalls(
    found: list[NDArray[np.int64]], truth: _Truth, width: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean recall among the first 1, 2, ... candidates, and its standard error."""
    hits = np.zeros((len(found), width), dtype=np.float64)
    for place, (ids, own) in enumerate(zip(found, truth.ids, strict=True)):
        true = truth.nearest[place][: truth.k]
        others = ids[ids != own][:width]
        hits[place, np.flatnonzero(np.isin(others, true))] = 1 / max(len(true), 1)
    shares = np.cumsum(hits, axis=1)
    return shares.mean(axis=0), shares.std(axis=0) / np.sqrt(len(found))
