"""The versions of an index: what it has decided, and how a new version is requested, paused or undone."""

from __future__ import annotations

import time

from .. import validation
from ..errors import InvalidInput, NotReady
from ..loop.decisions import Check
from ..loop.distances import Distances
from ..loop.hindsight import Hindsight, in_hindsight, prices_in_force
from ..mapping import HashMapping
from ..store.sqlite.code_versions import Version, propose_newest
from ..store.sqlite.settings import write_settings
from ..trigger import Decision, PriceUpdate
from .background_rehash import measured_price
from .index_state import IndexState


class IndexVersions(IndexState):
    """The part of an index that learns on request, decides, and has versions built."""

    @property
    def snapshot(self) -> HashMapping:
        """The mapping that stored codes and queries are encoded with."""
        mapping = self._table.mapping
        if mapping is None:
            raise NotReady("The dimension is not known yet: add vectors first.")
        return mapping

    @property
    def current(self) -> HashMapping:
        """The mapping after every example so far."""
        with self._writing:
            loop = self._ready()
            if loop.accepted is None:
                raise NotReady("The dimension is not known yet: add vectors first.")
            return loop.current

    @property
    def seen(self) -> int | None:
        """How many examples were learned from; None if this process has not learned.

        For a process that only reads, how many there were at the newest stored decision.
        """
        if not self.read_only:
            return self._durable.seen
        newest = self._durable.checks(limit=1)
        return newest[-1].seen if newest else 0

    def history(self, after: int | None = None, limit: int | None = None) -> list[Check]:
        """Return the stored decisions, each with the status of its version.

        After a crash, `catch_up` or the next change makes the decisions since the last accepted mapping again.

        Parameters
        ----------
        after
            Only decisions after this number.
        limit
            At most this many: the first ones after ``after``, or without it the newest.
        """
        if after is not None:
            after = validation.integer("after", after, minimum=-1, maximum=2**62)
        if limit is not None:
            limit = validation.integer("limit", limit, minimum=0, maximum=2**62)
        self._write_decisions()
        return self._durable.checks(after, limit)

    def versions(self) -> list[Version]:
        """Return the versions that have answered queries, in order, each with its items and build time."""
        return self._table.versions()

    def hindsight(self, price: float | None = None) -> Hindsight | None:
        """Compare the rehashes so far with the best schedule in hindsight.

        Returns None if no check has measured anything yet.

        Parameters
        ----------
        price
            What a rehash costs, in perfectly answered queries; by default what it cost at each check, by the
            trigger or `set_price`, or 20.

        Examples
        --------
        >>> import numpy as np
        >>> import tempfile, mihash
        >>> folder = tempfile.TemporaryDirectory()
        >>> data = mihash.datasets.digits()
        >>> with mihash.open(folder.name, n_bits=32) as index:
        ...     keys = index.add(data.X, data.y)
        ...     found = index.hindsight()
        >>> found.checks, found.best_cost <= found.cost, found.sentence
        (17, True, 'the trigger cost ... % more than the best schedule.')
        >>> folder.cleanup()
        """
        self._write_decisions()
        rule, checks = self._options.trigger, self._durable.checks()
        if price is None:
            usual = rule.price if isinstance(rule, PriceUpdate) else PriceUpdate().price
            return in_hindsight(checks, prices_in_force(checks, usual))
        return in_hindsight(checks, validation.number("price", price, minimum=0))

    def distances(self, version: int | None = None) -> Distances:
        """Return the distances to neighbours and to others on the current sample, under a version's mapping.

        Without ``version``, the current mapping is used. A read-only process has no learner and raises an error.
        """
        number = None if version is None else validation.integer("version", version, minimum=0, maximum=2**62)
        with self._writing:
            loop = self._ready()
            mapping = self.current if number is None else self._table.mapping_of(number)
            sampled = loop.sampled()
        return sampled(mapping)._replace(version=number)

    def catch_up(self, n: int | None = None) -> int:
        """Learn from rows that are stored and not learned from yet, the oldest first; return how many are left.

        These are the rows that `add` left for later, and after a crash those since the last checkpoint. If the
        index is closed first, it learns from them at the next change after `open`.

        Parameters
        ----------
        n
            How many rows to learn from; all by default.

        Examples
        --------
        >>> import numpy as np
        >>> import tempfile, mihash
        >>> folder = tempfile.TemporaryDirectory()
        >>> X = np.random.default_rng(0).standard_normal((1000, 16))
        >>> with mihash.open(folder.name, n_bits=32) as index:
        ...     keys = index.add(X, at_once=400)
        ...     print(len(index), index.seen, index.catch_up(400), index.catch_up(), index.seen)
        1000 400 200 0 1000
        >>> folder.cleanup()
        """
        n = None if n is None else validation.integer("n", n, minimum=0)
        with self._writing:
            self._ready()
            with self._durable.consistent():
                self._learn(n)
            self._write_decisions()
            return self._durable.behind

    def rehash(self) -> None:
        """Accept the current mapping without asking the trigger, and compute its codes in the background.

        This ends a pause.
        """
        with self._writing:
            loop = self._ready()
            if loop.accepted is None:
                raise NotReady("There is nothing to rehash: add vectors first.")
            with self._table.database.lock, self._durable.consistent(), self._table.loaded_again():
                with self._table.database.write() as connection:
                    self._durable.request()
                    write_settings(connection, paused=0)
                self._resumed()
                self._builder.notice()

    def set_price(self, price: float | None = None) -> float:
        """Set the price of a rehash, in perfectly answered queries; the trigger must be a `PriceUpdate`.

        The history stores the price, so a replay does not measure it again.

        Parameters
        ----------
        price
            In queries; None measures it: the time of the last rehash divided by the time of a query.

        Returns
        -------
        float
            The price.

        Examples
        --------
        >>> import tempfile, mihash
        >>> folder = tempfile.TemporaryDirectory()
        >>> with mihash.open(folder.name, trigger=mihash.PriceUpdate(20)) as index:
        ...     print(index.set_price(50.0), index.history()[-1].reason)
        50.0 set to 50 queries, from 20
        >>> folder.cleanup()
        """
        with self._writing:
            trigger = self._ready().branches[0].trigger
            if not isinstance(trigger, PriceUpdate):
                raise InvalidInput("Only a PriceUpdate has a price; this index was created with another trigger.")
            if price is None:
                price, reason = measured_price(self._table)
            else:
                price = validation.number("price", price, minimum=0)
                reason = f"set to {price:g} queries, from {trigger.price:g}"
            with self._durable.consistent(InvalidInput, NotReady), self._table.loaded_again():
                self._durable.set_price(price, reason)
            return price

    def offer(self, mapping: HashMapping, *, force: bool = False) -> Decision:
        """Offer another mapping to an index that was created with a mapping as its learner.

        The trigger compares both on the sample of the loop. If it accepts the new one, the index builds its codes
        in the background. Otherwise the table stays, and later checks compare the mapping again.

        Parameters
        ----------
        mapping
            Of the same length and the same number of features.
        force
            Whether to accept it without a comparison.

        Examples
        --------
        >>> import tempfile, mihash
        >>> data, folder = mihash.datasets.digits(), tempfile.TemporaryDirectory()
        >>> first, better = (mihash.batch.MIHash(16, epochs=n).fit(data.X[:500], data.y[:500]) for n in (1, 20))
        >>> with mihash.open(folder.name, learner=first) as index:
        ...     keys = index.add(data.X, data.y)
        ...     decisions = index.offer(better), index.offer(first)
        >>> [decision.update for decision in decisions]
        [True, False]
        >>> folder.cleanup()
        """
        with self._writing:
            self._ready()
            table, consistent = self._table, self._durable.consistent(InvalidInput, NotReady)
            with table.database.lock, consistent, table.loaded_again():
                with table.database.write() as connection:
                    check = self._durable.offer(connection, mapping, bool(force))
                if check.accepted:
                    self._builder.notice()
            return check.decision

    def pause(self) -> None:
        """Build no new version until `resume` or `rehash`; learning and decisions continue.

        A reopened index stays paused.
        """
        with self._writing:
            self._ready()
            with self._table.loaded_again():
                self._table.store_settings(paused=1)
                self._builder.pause()

    def resume(self) -> None:
        """Build the newest accepted version, unless it answers already, and continue building.

        If learning has stopped (``stats().learning_error``), it restarts with the next rows; the published mapping
        answers until a better one is learned.
        """
        with self._writing:
            stopped = self._ready().failure is not None
            with self._durable.consistent(), self._table.loaded_again():
                with self._table.database.write() as connection:
                    if stopped:
                        self._durable.restart(connection)
                    write_settings(connection, paused=0)
                    propose_newest(connection, self._table.setting("published"))
                self._resumed()
            if self._table.waiting() is not None:
                self._builder.notice()

    def rollback(self, version: int) -> None:
        """Answer with an earlier version from now on, and build no other until `resume` or `rehash`."""
        number = validation.integer("version", version, minimum=0)
        self._table.mapping_of(number)
        self.pause()
        with self._builder.building:
            if self.version != number:
                self._table.build(number)

    def wait(self, timeout: float | None = None, *, recall: bool = True) -> bool:
        """Wait until no version is being built and recall is measured; return False if the timeout came first.

        A large index that is open for writing measures once how many candidates a search has to read
        (docs/search.md). Without this call, the first searches start that measurement.

        Parameters
        ----------
        timeout
            Seconds to wait at most. With 0 it only tells whether there is something to wait for.
        recall
            Whether to wait for that measurement, too.
        """
        begin = time.monotonic()
        if not self._builder.wait(timeout):
            return False
        left = None if timeout is None else max(0.0, timeout - (time.monotonic() - begin))
        try:
            return not recall or self._closed or self.read_only or self._table.target.settle(left)
        except NotReady:  # closed by another thread meanwhile
            if not self._closed:
                raise
            return True

    def _external_mapping(self) -> HashMapping | None:
        """Return the mapping that an index without a learner of its own has now; None before it has one."""
        return self._table.mapping if self.read_only or self.version is not None else self._ready().learner.mapping

    def _resumed(self) -> None:
        """Go on building, after that was committed."""
        self._table.settled(paused=0)
        self._builder.resume()
