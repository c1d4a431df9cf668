"""What a query costs the HTTP service: CPU of the server's process, one client, one query in a request.

The client's own CPU is stated apart. The connection is kept open, as that of `mihash.service.Client` is. Then
eight clients search at a time, with and without another one that adds rows: queries a second, and the CPU of each.
"""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import numpy as np

import mihash

from .report import console, show_grid

SIZES, D, N_QUERIES, ROUNDS = (50_000, 200_000), 128, 400, 5
MOST_MS = 1.0
CASES = {
    "plain": {"rescore": 0},
    "Hamming": {"rescore": 0, "margins": False},
    "100 rescored": {"rescore": 100},
    "no option": {},
}
TOGETHER = ("plain", "100 rescored")
N_CLIENTS, SPAN_S, CORES, LEAST = 8, 15.0, 2, 400
ADDED, PAUSE_S = 50, 0.25  # rows of a request, and how long the client that adds waits for the next one


def run() -> None:
    """Print the tables."""
    alone, together = [], []
    for n in SIZES:
        one, many = _rows(n)
        alone += one
        together += many
    head = ["items", "query", "server ms", "client ms"]
    show_grid(f"CPU of one query over HTTP, {D} features; plain at most {MOST_MS:g} ms wanted", head, alone)
    head = [
        "items",
        "query",
        "rows/s added",
        "queries/s",
        "server ms",
        "clients ms",
        f"queries/s of {CORES} cores",
    ]
    title = f"{N_CLIENTS} clients at a time; with rescoring at least {LEAST} queries/s wanted, clients included"
    show_grid(title, head, together)


def _rows(n: int) -> tuple[list[list[str]], list[list[str]]]:
    """Return what each kind of query costs on n items, of one client and of several at a time."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, D), dtype=np.float32)[rng.integers(0, 100, n)]
    X += rng.standard_normal((n, D), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        with mihash.open(path) as index:
            index.add(X, at_once=10_000)
            index.wait()
            index.search(X[0])  # how many candidates are looked up without options is measured then
            index.evaluate()
        server = subprocess.Popen(
            [sys.executable, "-m", "mihash", "serve", str(path), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            address = _address(server)
            one = _ask(server, address, X[:N_QUERIES])
            many = [_together(server, address, X, name, adds) for name in TOGETHER for adds in (False, True)]
            return [[f"{n:,}", *row] for row in one], [[f"{n:,}", *row] for row in many]
        finally:
            server.terminate()
            server.wait()


def _ask(server: "subprocess.Popen[str]", address: urllib.parse.SplitResult, Q: np.ndarray) -> list[list[str]]:
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    bodies = {name: _bodies(name, Q) for name in CASES}
    best = {name: (float("inf"), 0.0) for name in CASES}
    for _ in range(ROUNDS):
        for name in CASES:
            before, own = _cpu_s(server.pid), time.process_time()
            for body in bodies[name]:
                _post(connection, "/v1/search", body)
            spent = (_cpu_s(server.pid) - before) / len(Q), (time.process_time() - own) / len(Q)
            best[name] = min(best[name], spent)
    return [[name, *(f"{1e3 * part:.2f}" for part in parts)] for name, parts in best.items()]


def _together(
    server: "subprocess.Popen[str]", address: urllib.parse.SplitResult, X: np.ndarray, name: str, adds: bool
) -> list[str]:
    """Return what several clients that search at a time get, and what that costs; with another that adds rows."""
    bodies = _bodies(name, X[:N_QUERIES])
    n_answers = [0] * N_CLIENTS
    n_added, over = [0], threading.Event()

    def client(turn: Callable[[http.client.HTTPConnection], None]) -> None:
        connection = http.client.HTTPConnection(address.hostname or "", address.port)
        while not over.is_set():
            turn(connection)

    def search(number: int) -> Callable[[http.client.HTTPConnection], None]:
        def turn(connection: http.client.HTTPConnection) -> None:
            _post(connection, "/v1/search", bodies[(number * 50 + n_answers[number]) % len(bodies)])
            n_answers[number] += 1

        return turn

    def add(connection: http.client.HTTPConnection) -> None:
        start = n_added[0] % (len(X) - ADDED)
        _post(connection, "/v1/items", json.dumps({"vectors": X[start : start + ADDED].tolist()}))
        n_added[0] += ADDED
        over.wait(PAUSE_S)

    turns = [search(number) for number in range(N_CLIENTS)] + ([add] if adds else [])
    clients = [threading.Thread(target=client, args=(turn,)) for turn in turns]
    before, own, begin = _cpu_s(server.pid), time.process_time(), time.perf_counter()
    for each in clients:
        each.start()
    time.sleep(SPAN_S)
    over.set()
    for each in clients:
        each.join()
    seconds, n = time.perf_counter() - begin, sum(n_answers)
    served, asked = (_cpu_s(server.pid) - before) / n, (time.process_time() - own) / n
    numbers = [f"{n_added[0] / seconds:.0f}", f"{n / seconds:.0f}", f"{1e3 * served:.2f}", f"{1e3 * asked:.2f}"]
    return [name, *numbers, f"{CORES / (served + asked):.0f}"]


def _bodies(name: str, Q: np.ndarray) -> list[str]:
    return [json.dumps({"vectors": [q.tolist()], "k": 10, **CASES[name]}) for q in Q]


def _post(connection: http.client.HTTPConnection, path: str, body: str) -> None:
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    assert response.status in (200, 201), answer


def _address(server: "subprocess.Popen[str]") -> urllib.parse.SplitResult:
    """Return where the server listens, as it prints it, once it is ready."""
    assert server.stdout is not None
    for line in server.stdout:
        console.print(f"[dim]{line.rstrip()}[/dim]")
        for word in line.split():
            if word.startswith("http://"):
                found = urllib.parse.urlsplit(word.rstrip(".,"))
                _wait(found)
                return found
    raise RuntimeError("the server has ended")


def _wait(address: urllib.parse.SplitResult) -> None:
    for _ in range(600):
        try:
            connection = http.client.HTTPConnection(address.hostname or "", address.port)
            connection.request("GET", "/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError("the server is not ready")


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
