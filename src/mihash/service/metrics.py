"""Counters of the service: rates for people, and all of them in the text format of Prometheus."""

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SPAN_S, _STEP_S = 10.0, 0.5
_INDEX_METRICS = (  # name, type, help, and the field of the stats
    ("mihash_items", "gauge", "Items in the index.", "items"),
    ("mihash_disk_bytes", "gauge", "Bytes on disk.", "bytes_on_disk"),
    ("mihash_examples_total", "counter", "Examples learned from.", "seen"),
    ("mihash_behind_rows", "gauge", "Rows stored but not learned from yet.", "behind"),
    ("mihash_decisions_total", "counter", "Decisions of the trigger.", "decisions"),
    ("mihash_alarms_total", "counter", "Alarms of the drift watch.", "alarms"),
    ("mihash_versions_total", "counter", "Versions published.", "updates"),
    ("mihash_rehashing", "gauge", "1 while a version is being built.", "rehashing"),
    ("mihash_paused", "gauge", "1 while rebuilding is paused.", "paused"),
)
_SHARD_METRICS = (
    ("up", "gauge", "1 while the shard is up."),
    ("lag", "gauge", "Log entries that the shard has not received yet."),
    ("restarts", "counter", "Restarts of the shard's process."),
)


class Rate:
    """A counter, and how fast it grew in the last ten seconds."""

    def __init__(self) -> None:
        self.total = 0
        self._start = time.monotonic()
        self._steps: deque[tuple[float, int]] = deque(maxlen=int(_SPAN_S / _STEP_S) + 1)
        self._lock = threading.Lock()

    def add(self, n: int) -> None:
        """Count n more."""
        step = time.monotonic() // _STEP_S * _STEP_S
        with self._lock:
            self.total += n
            if self._steps and self._steps[-1][0] == step:
                n += self._steps.pop()[1]
            self._steps.append((step, n))

    def per_second(self) -> float:
        """Return the mean rate over the last ten seconds."""
        now = time.monotonic()
        with self._lock:
            counted = sum(n for step, n in self._steps if step > now - _SPAN_S)
        return round(counted / min(_SPAN_S, max(1.0, now - self._start)), 2)


class Metrics:
    """What the service counts since it started.

    Parameters
    ----------
    worker
        The number of this process among several that answer on one port; it becomes a label of every metric.
    """

    def __init__(self, worker: int | None = None) -> None:
        self._worker = worker
        self._start = time.monotonic()
        self.rows, self.queries = Rate(), Rate()
        self._lock = threading.Lock()
        self._errors: Counter[str] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()

    @property
    def uptime_s(self) -> float:
        """How long the service has run."""
        return time.monotonic() - self._start

    def rates(self) -> dict[str, float]:
        """Return rows and queries per second."""
        return {"rows_per_s": self.rows.per_second(), "queries_per_s": self.queries.per_second()}

    def count_request(self, route: str, seconds: float, code: str | None) -> None:
        """Count a request, and its error code if it has one."""
        with self._lock:
            buckets = self._buckets.setdefault(route, [0] * (len(_BUCKETS) + 1))
            buckets[bisect_left(_BUCKETS, seconds)] += 1
            self._seconds[route] += seconds  # type: ignore[assignment]
            if code is not None:
                self._errors[code] += 1

    def text(self, stats: Mapping[str, Any] | None, rehash_s: float, queues: Mapping[str, int]) -> str:
        """Return all metrics in the text format of Prometheus; without stats, only those of the service itself."""
        lines = self._lines(stats, rehash_s, queues)
        return "\n".join([*(lines if self._worker is None else map(self._labelled, lines)), ""])

    def _labelled(self, line: str) -> str:
        """Return a line with the number of the worker as a label."""
        if line.startswith("#"):
            return line
        name, _, value = line.rpartition(" ")
        labels = f'worker="{self._worker}"'
        return f"{name[:-1]},{labels}}} {value}" if name.endswith("}") else f"{name}{{{labels}}} {value}"

    def _lines(self, stats: Mapping[str, Any] | None, rehash_s: float, queues: Mapping[str, int]) -> Iterator[str]:
        if stats is not None:
            for name, kind, text, field in _INDEX_METRICS:
                yield from _single(name, kind, text, int(stats[field]))
            yield from _single("mihash_rehash_seconds_total", "counter", "Seconds spent on rehashes.", rehash_s)
            text = "1 while decisions cannot be written, for example because the disk is full."
            yield from _single("mihash_write_failing", "gauge", text, int(stats["write_error"] is not None))
            yield from _shards(stats.get("shards") or ())
        yield from _single("mihash_rows_total", "counter", "Rows added.", self.rows.total)
        yield from _single("mihash_queries_total", "counter", "Queries answered.", self.queries.total)
        yield from _head("mihash_waiting", "gauge", "Queued and running requests, by worker pool.")
        yield from (f'mihash_waiting{{pool="{name}"}} {n}' for name, n in queues.items())
        yield from self._requests()
        yield from _single("process_resident_memory_bytes", "gauge", "Resident memory.", resident_bytes())
        yield from _single("mihash_uptime_seconds", "gauge", "Seconds since the start.", round(self.uptime_s, 3))

    def _requests(self) -> Iterator[str]:
        with self._lock:
            errors, seconds = dict(self._errors), dict(self._seconds)
            buckets = {route: list(counts) for route, counts in self._buckets.items()}
        yield from _head("mihash_errors_total", "counter", "Error responses, by code.")
        yield from (f'mihash_errors_total{{code="{code}"}} {n}' for code, n in sorted(errors.items()))
        name = "mihash_request_seconds"
        yield from _head(name, "histogram", "Duration of requests, by route.")
        for route, counts in sorted(buckets.items()):
            label, total = f'route="{route}"', 0
            for bound, n in zip((*map(str, _BUCKETS), "+Inf"), counts, strict=True):
                total += n
                yield f'{name}_bucket{{{label},le="{bound}"}} {total}'
            yield f"{name}_sum{{{label}}} {seconds[route]:.6f}"
            yield f"{name}_count{{{label}}} {total}"


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _single(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    yield from _head(name, kind, text)
    yield f"{name} {value}"


def _shards(shards: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the state of each shard of an index on Ray."""
    for name, kind, text in _SHARD_METRICS if shards else ():
        yield from _head(f"mihash_shard_{name}", kind, text)
        for each in shards:
            value = int(each["state"] == "up") if name == "up" else each[name]
            yield f'mihash_shard_{name}{{shard="{each["shard"]}"}} {value}'


def resident_bytes() -> int:
    """Return the resident memory of this process, 0 on systems without /proc."""
    try:
        fields = Path("/proc/self/statm").read_text().split()
    except OSError:
        return 0
    import resource

    return int(fields[1]) * resource.getpagesize()
