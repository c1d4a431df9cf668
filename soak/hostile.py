"""Send a service requests that are made to hold it up, and time what others ask meanwhile.

The service is a process of its own, as `mihash serve` starts it. Hostile clients send, over and over: filters with
hundreds of names that SQLite cannot look up by a path, over items with many fields; metadata of a million empty
lists; and one row of a million features. Each must be refused, or stopped at the timeout. Meanwhile other clients
search without a filter and ask for `/health`. Fails where a hostile request takes longer than the timeout and a
second, where the p99 of the others is above a second, or where memory exceeds 1.5 GB. Clients are threads of one
process, so that a busy machine shows in their times, too.
"""

import argparse
import http.client
import json
import tempfile
import threading
import time
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

import mihash
from mihash import OnlineIndex

from .report import console, show_load
from .service import Watch, served

__all__ = ["add_arguments", "run"]

D, K, FIELDS, NAMES = 16, 10, 40, 480
PAUSE_S = 0.1
MOST_BYTES = 1_500_000_000
MARK = "another each time"
JSON, FLOATS = "application/json", "application/octet-stream"

Request = tuple[str, str, bytes, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--items", type=int, default=20_000, help="how many rows there are (20000)")
    parser.add_argument("--seconds", type=float, default=30, help="how long it lasts (30)")
    parser.add_argument("--timeout", type=float, default=5, help="the timeout of the service, in seconds (5)")
    parser.add_argument(
        "--conditions", type=int, default=200, help="conditions that the service takes in a filter (200)"
    )
    parser.add_argument(
        "--longest", type=float, default=1, help="seconds for others, and for hostile ones beyond the timeout (1)"
    )


def run(arguments: argparse.Namespace) -> bool:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((arguments.items, D)).astype(np.float32)
    with tempfile.TemporaryDirectory(prefix="mihash-soak-") as folder:
        console.print(f"Filling an index with {arguments.items:,} rows of {FIELDS} fields each ...")
        with OnlineIndex.create(folder, 64, trigger=mihash.TriggerUpdate(float("inf"))) as index:
            fields = {f"field {i}": f"value {i}" for i in range(FIELDS)}
            index.add(X, metadata=[fields] * len(X))
        options = ("--timeout", str(arguments.timeout), "--max-conditions", str(arguments.conditions))
        with served(folder, *options) as url:
            _wait(url)
            watch = Watch(url)
            watch.start()
            vector = X[:1].tolist()
            search: Request = ("POST", "/v1/search", json.dumps({"vectors": vector, "k": K}).encode(), JSON)
            good = Askers(url, 2, search)
            health = Askers(url, 1, ("GET", "/health", b"", JSON))
            attacks = (
                _filter(vector, NAMES),
                _filter(vector, arguments.conditions),
                _lists(vector),
                ("POST", "/v1/items?features=1000000", bytes(4_000_000), FLOATS),
            )
            hostile = [Askers(url, n, request) for n, request in zip((2, 2, 1, 1), attacks, strict=True)]
            time.sleep(arguments.seconds)
            for asker in (good, health, *hostile):
                asker.stop()
            watch.stop()
    names = (
        f"filter of {NAMES} names",
        f"filter of {arguments.conditions} names",
        "metadata of lists",
        "wide row",
    )
    return _show(arguments, good, health, dict(zip(names, hostile, strict=True)), watch)


def _filter(vector: list[list[float]], names: int) -> Request:
    """Return a search with a filter over names with quotes; the mark makes it another one each time."""
    where = {"$or": [{f'"{i}': MARK} for i in range(names)]}
    return "POST", "/v1/search", json.dumps({"vectors": vector, "k": K, "where": where}).encode(), JSON


def _lists(vector: list[list[float]]) -> Request:
    lists = ",".join(["[]"] * 1_000_000)
    body = f'{{"vectors": {json.dumps(vector)}, "metadata": [{{"a": [{lists}]}}]}}'
    return "POST", "/v1/items", body.encode(), JSON


class Askers:
    """Threads that send a request over and over until they are stopped, each on a connection of its own."""

    def __init__(self, url: str, n: int, request: Request) -> None:
        self._place, self._request = urlsplit(url), request
        self._stopped = threading.Event()
        self.answers: list[tuple[int, float]] = []
        self._threads = [threading.Thread(target=self._work, args=(1000 * i,), daemon=True) for i in range(n)]
        for thread in self._threads:
            thread.start()

    def _work(self, n: int) -> None:
        connection = http.client.HTTPConnection(self._place.hostname or "", self._place.port, timeout=120)
        method, address, body, kind = self._request
        while not self._stopped.wait(PAUSE_S):
            n += 1
            fresh = body.replace(MARK.encode(), b"%d" % n) if MARK.encode() in body[:1000] else body
            begin = time.perf_counter()
            try:
                connection.request(method, address, fresh, {"Content-Type": kind})
                response = connection.getresponse()
                response.read()
                status = response.status
            except (OSError, http.client.HTTPException):
                connection.close()
                status = 0
            self.answers.append((status, time.perf_counter() - begin))
        connection.close()

    def stop(self) -> None:
        """End, after the requests that run."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    @property
    def seconds(self) -> NDArray[np.float64]:
        """How long each request took."""
        return np.array([seconds for _, seconds in self.answers])

    @property
    def statuses(self) -> dict[int, int]:
        """How many answers had each status; 0 for none."""
        found = [status for status, _ in self.answers]
        return {status: found.count(status) for status in sorted(set(found))}


def _wait(url: str) -> None:
    place = urlsplit(url)
    for _ in range(600):
        connection = http.client.HTTPConnection(place.hostname or "", place.port)
        connection.request("GET", "/ready")
        status = connection.getresponse().status
        connection.close()
        if status == 200:
            return
        time.sleep(0.1)
    raise RuntimeError("The service did not get ready.")


def _show(
    arguments: argparse.Namespace, good: Askers, health: Askers, hostile: dict[str, Askers], watch: Watch
) -> bool:
    table = Table(title=f"{arguments.items:,} items, a timeout of {arguments.timeout:g} s", title_justify="left")
    for name in ("", "requests", "p50 s", "p99 s", "most s", "statuses"):
        table.add_column(name, justify="right" if name not in ("", "statuses") else "left")
    for name, asker in {"searches": good, "/health": health, **hostile}.items():
        seconds = asker.seconds
        p50, p99 = (f"{np.percentile(seconds, at):.3f}" for at in (50, 99)) if len(seconds) else ("", "")
        most = f"{seconds.max():.3f}" if len(seconds) else ""
        table.add_row(name, f"{len(seconds):,}", p50, p99, most, str(asker.statuses))
    console.print(table)
    resident = max(watch.bytes_, default=0)
    console.print(f"Resident memory at most {resident / 1e6:,.0f} MB.")
    show_load()
    faults = []
    for name, asker in (("searches", good), ("/health", health)):
        if set(asker.statuses) != {200}:
            faults.append(f"{name} were answered with {asker.statuses}")
        if len(asker.seconds) and np.percentile(asker.seconds, 99) > arguments.longest:
            faults.append(f"the p99 of {name} is above {arguments.longest:g} s")
    for name, asker in hostile.items():
        if not set(asker.statuses) <= {413, 422, 503, 504}:
            faults.append(f"{name}: answered with {asker.statuses}")
        most = arguments.timeout + arguments.longest
        if len(asker.seconds) and asker.seconds.max() > most:
            faults.append(f"{name}: not answered within {most:g} s")
    if resident > MOST_BYTES:
        faults.append(f"more than {MOST_BYTES / 1e6:,.0f} MB of memory")
    console.print(f"Faults: {len(faults)}")
    for fault in faults:
        console.print(f"  {fault}", markup=False)
    return not faults
