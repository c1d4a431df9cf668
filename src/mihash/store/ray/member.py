"""A shard as the coordinator sees it: a thread sends it the log and records when it last responded."""

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...errors import MIHashError, NotReady, Superseded
from .cluster import ray_module
from .log import Log, Place
from .shard import SUPERSEDED

_LOOK_S = 1.0
_WAIT_S = 0.25
_AGAIN_S = 5.0
_FOREIGN_S = 2.0  # while a coordinator opens, its shards follow the one before for a moment
_START_S = 60.0  # a process that was never heard of may have much to read


class Member:
    """One shard: its actor, up to which entry it is, and whether it can be reached.

    Parameters
    ----------
    place
        Where it is.
    start
        Starts its actor, or finds it.
    log
        What it is brought; None where another process does that.
    applied
        Up to which entry it is known to be.
    oldest
        Tells the oldest entry that a search may still ask for.
    session
        Tells the session of the coordinator that the shard is to follow.
    timeout_s
        How long it may be silent.
    """

    def __init__(
        self,
        place: Place,
        start: Callable[[], Any],
        log: Log | None,
        applied: int,
        oldest: Callable[[], int],
        session: Callable[[], str],
        timeout_s: float,
    ) -> None:
        self.place, self._start, self._log, self._oldest, self._timeout_s = place, start, log, oldest, timeout_s
        self._session = session
        self._ray = ray_module()
        self.actor = start()
        self._known, self.applied, self._target = applied, -1, 0
        self.about: dict[str, Any] = {}
        self.claimed = False  # whether the shard follows this coordinator, as far as is known
        self._refused: str | None = None  # why it never will
        self._foreign_since: float | None = None  # of a reader: since when it follows another log
        self.failure: str | None = None
        self._failing_since: float | None = None
        self._seen = time.monotonic()
        self._condition = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name=f"mihash-shard-{place.number}", daemon=True)
        self._thread.start()

    def call(self, group: str, method: str, *arguments: Any) -> Any:
        """Begin a call in one of the shard's groups of threads; Ray repeats it where the process dies."""
        self._check_joined()
        return self.actor.call.options(concurrency_group=group).remote(self._session(), method, *arguments)

    def _check_joined(self) -> None:
        if not self._ray.is_initialized():  # it would begin a cluster of its own
            raise NotReady("This process has left the Ray cluster: open the index again.")

    def heard(self) -> None:
        """Note that the shard has answered something."""
        self._seen = time.monotonic()

    @property
    def lost(self) -> bool:
        """Whether the shard was silent, or failing, for longer than it may be."""
        now = time.monotonic()
        failing = self._failing_since is not None and now - self._failing_since > self._timeout_s
        patience = self._timeout_s if self.applied >= 0 else max(self._timeout_s, _START_S)
        return failing or now - self._seen > patience

    @property
    def refused(self) -> str | None:
        """Why the shard does not follow this log, where another coordinator has taken it over."""
        since = self._foreign_since
        foreign = since is not None and time.monotonic() - since > _FOREIGN_S
        return SUPERSEDED if foreign else self._refused

    def miss(self, reason: str) -> None:
        """Treat the shard as lost until it responds."""
        self.failure, self._failing_since = reason, -math.inf

    @property
    def state(self) -> str:
        """``"starting"``, ``"up"``, ``"silent"`` or ``"lost"``."""
        if self.lost:
            return "lost"
        if self.applied < 0:
            return "starting"
        silent = time.monotonic() - self._seen > 3 * _LOOK_S
        return "silent" if silent or self._failing_since is not None else "up"

    @property
    def why(self) -> str:
        """What is known of a shard that is lost."""
        reason = self.failure or f"it was silent for {time.monotonic() - self._seen:.0f} s"
        return f"shard {self.place.number} on {self.place.node_name} ({reason})"

    def wake(self, target: int) -> None:
        """Say that there is an entry for it."""
        with self._condition:
            self._target = max(self._target, target)
            self._condition.notify_all()

    def reach(self, target: int) -> bool:
        """Wait until the shard has an entry; return False if it is lost instead."""
        with self._condition:
            while self.applied < target and not self.lost:
                if self._stopped:
                    raise NotReady("The index is closed.")
                if (refused := self.refused) is not None:
                    raise Superseded(refused)
                self._target = max(self._target, target)
                self._condition.notify_all()
                self._condition.wait(0.01 if self._log is None else _WAIT_S)
            return not self.lost

    def has(self, number: int, within_s: float) -> bool:
        """Tell whether the shard has an entry on its disk; wait a little for it."""
        with self._condition:
            if self._stopped:
                raise NotReady("The index is closed.")
            return self._condition.wait_for(lambda: self.applied >= number, within_s)

    def stop(self) -> None:
        """End the thread."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()

    # The thread

    def _work(self) -> None:
        while True:
            with self._condition:
                if self.applied >= 0 and self.applied >= self._target and not self._stopped:
                    self._condition.wait(_LOOK_S)
                if self._stopped:
                    return
                behind = self.applied < self._target
            try:
                self._turn(behind)
            except (NotReady, SystemExit):  # the log is closed, or Ray was left: it then ends threads that wait
                return
            except MIHashError as error:  # of our own log
                self._fail(str(error))

    def _turn(self, behind: bool) -> None:
        parts = (
            self._log.parts_after(self.place.number, self.applied) if self._log and self.claimed and behind else []
        )
        try:
            if parts:
                about = self._answer(self.call("write", "apply", parts, self._oldest()))
            else:
                about = self._answer(self._look())
                if about is not None and self._log is not None and self._may_claim(about, self._log):
                    claim = self.actor.claim.options(concurrency_group="write")
                    about = self._answer(claim.remote(self._log.epoch))
                if behind and self._log is None:
                    time.sleep(0.005)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, Superseded):
                if not self.claimed:  # it was the claim that was refused
                    self._refused = str(error.cause)
                self.claimed = False
            self._fail(str(error.cause))
            return
        except self._ray.exceptions.RayError as error:
            self._fail(_reason(error))
            self._begin_again()
            return
        if about is not None:
            self._take(about, bool(parts))

    def _answer(self, ref: Any) -> dict[str, Any] | None:
        """Wait for an answer, looking whether the shard is alive meanwhile; None if this was stopped."""
        look = None
        while not self._ray.wait([ref], timeout=_LOOK_S)[0]:
            if self._stopped:
                return None
            if look is None:
                look = self._look()
            elif self._ray.wait([look], timeout=0)[0]:
                self._note(self._ray.get(look))
                look = None
        found: dict[str, Any] = self._ray.get(ref)
        return found

    def _look(self) -> Any:
        """Ask how the shard is; as its coordinator where this is one, so that others see that it is alive."""
        if self.claimed:
            return self.call("maintenance", "hello")
        self._check_joined()
        return self.actor.hello.options(concurrency_group="maintenance").remote()

    def _may_claim(self, about: dict[str, Any], log: Log) -> bool:
        """Tell whether the shard is to follow this coordinator now: all were looked at, and it fits to the log."""
        due = log.epoch is not None and not self.claimed
        return due and not self._is_older(about) and self._is_ours(about)

    def _is_older(self, about: dict[str, Any]) -> bool:
        """Tell whether the shard lacks entries that it had."""
        return bool(about["applied"] < max(self._known, self.applied))

    def _is_ours(self, about: dict[str, Any]) -> bool:
        """Tell whether the log has all that the shard knows of; it would pass over new entries as known ones."""
        return self._log is None or self.claimed or self._log.has(about["newest"], about["author"])

    def _take(self, about: dict[str, Any], brought: bool) -> None:
        """Take over how far the shard is."""
        self._note(about)
        if self._is_older(about):
            self._fail(
                f"it has entries up to {about['applied']} and had {max(self._known, self.applied)} of them: its "
                f"folder {self.place.path} was replaced by an older one"
            )
            return
        if not self._is_ours(about):
            self._refused = (
                f"Shard {self.place.number} on {self.place.node_name} knows of entry {about['newest']}, which "
                "this log lacks: the coordinator's folder was replaced by an older one, or another coordinator "
                "has taken over this index. Open it there and delete this copy, or restore a backup of the whole."
            )
            self._fail(self._refused)
            return
        follows = about["session"] == self._session()
        with self._condition:
            self.claimed = self._log is not None and follows
            if self._log is None:
                self._foreign_since = None if follows else self._foreign_since or time.monotonic()
            stuck = brought and about["applied"] == self.applied
            self.applied = about["applied"]
            self._condition.notify_all()
        if stuck:
            self._fail("it does not apply its entries of the log")
        elif self._log is None or self.applied >= self._target or brought:
            self.failure = self._failing_since = None

    def _note(self, about: dict[str, Any]) -> None:
        self.heard()
        self.about = about

    def _fail(self, reason: str) -> None:
        with self._condition:
            self.failure = reason
            if self._failing_since is None:
                self._failing_since = time.monotonic()
            self._condition.notify_all()
            if not self._stopped:
                self._condition.wait(_LOOK_S)

    def _begin_again(self) -> None:
        """Start an actor that Ray has given up."""
        with self._condition:
            if self._stopped:
                return
            self._condition.wait(_AGAIN_S)
            if self._stopped or not self._ray.is_initialized():  # Ray would join whichever cluster it finds
                return
        try:
            if self._log is not None:
                with suppress(self._ray.exceptions.RayError):
                    self._ray.kill(self.actor, no_restart=True)  # our own, where something is left of it
            self.actor = self._start()
        except Superseded as error:
            self._refused = str(error)
            self._fail(self._refused)
        except MIHashError as error:
            self._fail(str(error))


def _reason(error: Exception) -> str:
    """Return what is wrong in one line: what a shard has raised as it began, or what Ray says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if "creation task" not in lines[0]:
        return lines[0]
    return lines[-1].partition(": ")[2] or lines[-1]
