"""What is counted: rates for people, and Prometheus' text format for machines."""

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SPAN_S, _STEP_S = 10.0, 0.5


class Rate:
    """A count, and how fast it has grown in the last ten seconds."""

    def __init__(self) -> None:
        self.total = 0
        self._born = time.monotonic()
        self._steps: deque[tuple[float, int]] = deque(maxlen=int(_SPAN_S / _STEP_S) + 1)
        self._lock = threading.Lock()

    def add(self, n: int) -> None:
        """Count some more."""
        step = time.monotonic() // _STEP_S * _STEP_S
        with self._lock:
            self.total += n
            if self._steps and self._steps[-1][0] == step:
                n += self._steps.pop()[1]
            self._steps.append((step, n))

    def per_second(self) -> float:
        """Return the mean of the last ten seconds."""
        now = time.monotonic()
        with self._lock:
            counted = sum(n for step, n in self._steps if step > now - _SPAN_S)
        return round(counted / min(_SPAN_S, max(1.0, now - self._born)), 2)


class Metrics:
    """Everything that the service counts of itself since it began."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.rows, self.queries = Rate(), Rate()
        self._lock = threading.Lock()
        self._errors: Counter[str] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()

    @property
    def uptime_s(self) -> float:
        """How long the service has run."""
        return time.monotonic() - self.began

    def rates(self) -> dict[str, float]:
        """Return rows and queries a second."""
        return {"rows_per_s": self.rows.per_second(), "queries_per_s": self.queries.per_second()}

    def answered(self, address: str, seconds: float, code: str | None) -> None:
        """Count a request, with the code of its error."""
        with self._lock:
            buckets = self._buckets.setdefault(address, [0] * (len(_BUCKETS) + 1))
            buckets[bisect_left(_BUCKETS, seconds)] += 1
            self._seconds[address] += seconds  # type: ignore[assignment]
            if code is not None:
                self._errors[code] += 1

    def text(self, stats: dict[str, Any] | None, rehash_s: float, waiting: dict[str, int]) -> str:
        """Return all of it in Prometheus' text format; without an index, only what is the service's own."""
        return "\n".join([*self._lines(stats, rehash_s, waiting), ""])

    def _lines(self, stats: dict[str, Any] | None, rehash_s: float, waiting: dict[str, int]) -> Iterator[str]:
        if stats is not None:
            yield from _single("mihash_items", "gauge", "Items in the index.", stats["items"])
            yield from _single("mihash_disk_bytes", "gauge", "Bytes on the disk.", stats["bytes_on_disk"])
            yield from _single("mihash_examples_total", "counter", "Examples learned from.", stats["seen"] or 0)
            yield from _single(
                "mihash_behind_rows", "gauge", "Rows stored and not learned from yet.", stats["behind"]
            )
            yield from _single(
                "mihash_decisions_total", "counter", "Decisions of the trigger.", stats["decisions"]
            )
            yield from _single(
                "mihash_versions_total", "counter", "Versions that were published.", stats["updates"]
            )
            yield from _single("mihash_rehash_seconds_total", "counter", "Seconds spent on rehashes.", rehash_s)
            for name, text in (
                ("rehashing", "Whether a version is being built."),
                ("paused", "Whether none may be."),
            ):
                yield from _single(f"mihash_{name}", "gauge", text, int(stats[name]))
            text = "1 while decisions cannot be written, for example because the disk is full."
            yield from _single("mihash_write_failing", "gauge", text, int(stats["write_error"] is not None))
            yield from _shards(stats.get("shards", ()))
        yield from _single("mihash_rows_total", "counter", "Rows that were added.", self.rows.total)
        yield from _single("mihash_queries_total", "counter", "Queries that were answered.", self.queries.total)
        yield from _head("mihash_waiting", "gauge", "Requests at work or waiting for it.")
        yield from (f'mihash_waiting{{room="{name}"}} {n}' for name, n in waiting.items())
        yield from self._requests()
        yield from _single("process_resident_memory_bytes", "gauge", "Resident memory.", resident_bytes())
        yield from _single("mihash_uptime_seconds", "gauge", "Seconds since the start.", round(self.uptime_s, 3))

    def _requests(self) -> Iterator[str]:
        with self._lock:
            errors, seconds = dict(self._errors), dict(self._seconds)
            buckets = {address: list(counts) for address, counts in self._buckets.items()}
        yield from _head("mihash_errors_total", "counter", "Answers that were errors, by code.")
        yield from (f'mihash_errors_total{{code="{code}"}} {n}' for code, n in sorted(errors.items()))
        name = "mihash_request_seconds"
        yield from _head(name, "histogram", "How long requests took.")
        for address, counts in sorted(buckets.items()):
            label, total = f'address="{address}"', 0
            for bound, n in zip((*map(str, _BUCKETS), "+Inf"), counts, strict=True):
                total += n
                yield f'{name}_bucket{{{label},le="{bound}"}} {total}'
            yield f"{name}_sum{{{label}}} {seconds[address]:.6f}"
            yield f"{name}_count{{{label}}} {total}"


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _single(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    yield from _head(name, kind, text)
    yield f"{name} {value}"


def _shards(shards: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield how each shard of an index on Ray is; nothing for an index without."""
    gauges = (("up", "gauge", "Whether the shard is up."), ("lag", "gauge", "Entries of the log that it lacks."))
    for name, kind, text in (*gauges, ("restarts", "counter", "How often its process was started again.")):
        if shards:
            yield from _head(f"mihash_shard_{name}", kind, text)
        for each in shards:
            value = int(each["state"] == "up") if name == "up" else each[name]
            yield f'mihash_shard_{name}{{shard="{each["shard"]}"}} {value}'


def resident_bytes() -> int:
    """Return how much memory this process has, 0 where the system does not say."""
    try:
        fields = Path("/proc/self/statm").read_text().split()
    except OSError:
        return 0
    import resource

    return int(fields[1]) * resource.getpagesize()
