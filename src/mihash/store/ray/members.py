"""All shards of a table: started together, asked together, and named where they cannot be reached."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ...errors import NotReady, PartialFailure, StoreError, Superseded
from .cluster import known_resources, ray_module
from .log import Log, Place
from .member import Member

_POLL_S = 0.25
_CLOSE_S = 5.0
_HAS_S = 0.1
_PATIENCE_S = 10.0  # a change that is refused, or left in doubt, costs more than a late answer
_NOTED_S = 1.0


class Members:
    """The shards of a table.

    Parameters
    ----------
    log
        The entries that they follow.
    writes
        Whether this process brings them the entries; else another one does.
    start
        Starts the actor of a place, or finds it.
    oldest
        Tells the oldest entry that a search may still ask for.
    session
        Tells the session of the coordinator that they are to follow.
    timeout_s
        How long one may be silent before it is missed.
    allow_partial
        Whether to go on without those that are missed.
    """

    def __init__(
        self,
        log: Log,
        writes: bool,
        start: Callable[[Place], Any],
        oldest: Callable[[], int],
        session: Callable[[], str],
        timeout_s: float,
        allow_partial: bool,
    ) -> None:
        self._ray = ray_module()
        self._log, self._writes, self._session, self._allow_partial = log, writes, session, allow_partial
        self.all: list[Member] = []
        try:
            brought = log if writes else None
            for place, known in zip(log.places(), log.applied(), strict=True):
                self.all.append(Member(place, partial(start, place), brought, known, oldest, session, timeout_s))
            self._begin()
            if writes:
                self._claim()
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.all)

    def _begin(self) -> None:
        """Wait until every shard has been heard of."""
        there = known_resources()
        for member in self.all:
            if member.place.node not in there:
                member.miss("no such node is in the cluster")
        self._wait(lambda member: member.applied >= 0)

    def _claim(self) -> None:
        """Have every shard follow this coordinator, in an epoch above all that they know of."""
        self._log.begin(self._session(), max(member.about.get("epoch", 0) for member in self.all))
        self.wake([0] * len(self.all))
        self._wait(lambda member: member.claimed)

    def _wait(self, is_done: Callable[[Member], bool]) -> None:
        while waiting := [member for member in self.all if not is_done(member)]:
            self.check()
            lost = [member for member in waiting if member.lost or member.failure]
            if lost and not self._allow_partial:
                raise missed(lost)
            if all(member.lost for member in waiting):
                return
            time.sleep(0.02)

    def check(self) -> None:
        """Raise where another coordinator has taken over."""
        for member in self.all:
            if (refused := member.refused) is not None:
                raise Superseded(refused)

    def check_complete(self) -> None:
        """Raise where not every shard follows this coordinator: another one may have those, and take changes."""
        until = time.monotonic() + _PATIENCE_S
        while all(member.lost for member in self.all) and time.monotonic() < until:
            time.sleep(_HAS_S)
        self.check()
        lost = [member for member in self.all if not member.claimed]
        if lost or all(member.lost for member in self.all):
            raise missed(lost or self.all)

    def confirm(self, number: int, lasts: Sequence[int]) -> None:
        """Wait until one shard has the newest entry on its disk; only then is it acknowledged.

        A coordinator that takes over asks all shards, so it learns of the entry. Where the shards that it concerns
        are away, another one stores a note of it.
        """
        concerned = [member for member, last in zip(self.all, lasts, strict=True) if last == number]
        others = [member for member in self.all if member not in concerned]
        until = time.monotonic() + _PATIENCE_S
        while not any(member.has(number, _HAS_S) for member in concerned):
            self.check()
            if self._note(number, others):
                return
            if all(member.lost for member in self.all) and time.monotonic() > until:
                raise StoreError(
                    "The change is in the log, but no shard has confirmed it. It will be applied when a shard is "
                    f"back, unless another coordinator takes over first. {missed(self.all)}"
                )

    def _note(self, number: int, others: Sequence[Member]) -> bool:
        """Have a shard make a note of an entry; return whether one has."""
        up = [member for member in others if member.state == "up"]
        if not up or not self._writes:
            return False
        author, until = self._log.author(number), time.monotonic() + _NOTED_S
        refs = {member.call("ask", "note", number, author): member.place.number for member in up[:1]}
        return bool(self.gather(refs, lambda: time.monotonic() > until)[0])

    def wake(self, lasts: Iterable[int]) -> None:
        """Tell each shard up to which entry there is something for it."""
        for member, last in zip(self.all, lasts, strict=True):
            member.wake(last)

    def reach(self, lasts: Sequence[int], among: Iterable[int] | None = None) -> list[Member]:
        """Wait until shards have their entries; return those that are lost."""
        chosen = range(len(self.all)) if among is None else among
        self.check()
        return [self.all[number] for number in chosen if not self.all[number].reach(lasts[number])]

    def require(self, lasts: Sequence[int], among: Iterable[int] | None = None) -> None:
        """Wait until shards have their entries; one that is lost is an error."""
        if lost := self.reach(lasts, among):
            raise missed(lost)

    def ask(
        self, group: str, method: str, arguments: dict[int, tuple[Any, ...]]
    ) -> tuple[dict[int, Any], list[Member]]:
        """Call a method of shards and wait; return the answers by shard, and the shards that are lost."""
        refs = {self.all[shard].call(group, method, *each): shard for shard, each in arguments.items()}
        return self.gather(refs, lambda: False)

    def gather(self, refs: dict[Any, int], stopped: Callable[[], bool]) -> tuple[dict[int, Any], list[Member]]:
        """Wait for calls; return the answers by shard, and the shards that are lost."""
        answers: dict[int, Any] = {}
        lost: list[Member] = []
        pending = dict(refs)
        while pending and not stopped():
            ready, _ = self._ray.wait(list(pending), num_returns=len(pending), timeout=_POLL_S)
            for ref in ready:
                shard = pending.pop(ref)
                try:
                    answers[shard] = self._ray.get(ref)
                except self._ray.exceptions.RayTaskError as error:
                    raise (error.cause if isinstance(error.cause, Exception) else error) from None
                except self._ray.exceptions.RayError:
                    lost.append(self.all[shard])
                else:
                    self.all[shard].heard()
            gone = [ref for ref, shard in pending.items() if self.all[shard].lost]
            lost.extend(self.all[pending.pop(ref)] for ref in gone)
        return answers, lost

    def answers(self, method: str, arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Call a method of shards, and return their answers by shard; one that is lost is an error."""
        answers, lost = self.ask("ask", method, arguments)
        if lost:
            raise missed(lost)
        return answers

    def ask_all(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every shard, and return their answers in order; one that is lost is an error."""
        answers = self.answers(method, dict.fromkeys(range(len(self.all)), arguments))
        return [answers[shard] for shard in range(len(self.all))]

    def about(self, lasts: Sequence[int]) -> list[dict[str, Any]]:
        """Return how each shard is: where it is, how far it lags, and how often it was started again."""
        up = [member.place.number for member in self.all if member.state == "up"]
        sizes = self.ask("maintenance", "disk_bytes", dict.fromkeys(up, ()))[0]
        return [
            {
                "shard": member.place.number,
                "node": member.place.node_name,
                "path": member.place.path,
                "state": member.state,
                "version": member.about.get("version"),
                "items": member.about.get("items"),
                "lag": self._log.waiting(member.place.number, member.applied) if member.applied < last else 0,
                "restarts": member.about.get("restarts", 0),
                "bytes_on_disk": sizes.get(member.place.number),
            }
            for member, last in zip(self.all, lasts, strict=True)
        ]

    def close(self) -> None:
        """Have the shards close their files, and end their processes."""
        for member in self.all:
            member.stop()
        if not self._writes or not self._ray.is_initialized():
            return
        with suppress(self._ray.exceptions.RayError, NotReady):
            refs = [
                member.call("write", "close") for member in self.all if member.claimed and member.state == "up"
            ]
            if refs:
                self._ray.wait(refs, num_returns=len(refs), timeout=_CLOSE_S)
        for member in self.all:
            with suppress(self._ray.exceptions.RayError):
                self._ray.kill(member.actor, no_restart=True)


def missed(lost: Sequence[Member]) -> PartialFailure:
    """Return the error that names shards which cannot be reached."""
    names = "; ".join(member.why for member in lost)
    return PartialFailure(
        f"{len(lost)} of the shards cannot be reached: {names}. Bring their nodes back, or open with "
        "allow_partial=True for answers without them.",
        tuple(member.place.number for member in lost),
    )
