"""What a query costs the HTTP service: CPU of the server's process, one client, one query in a request.

The client's own CPU is stated apart. The connection is kept open, as that of `mihash.service.Client` is.
"""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
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


def run() -> None:
    """Print the table."""
    rows = [row for n in SIZES for row in _rows(n)]
    head = ["items", "query", "server ms", "client ms"]
    show_grid(f"CPU of one query over HTTP, {D} features; plain at most {MOST_MS:g} ms wanted", head, rows)


def _rows(n: int) -> list[list[str]]:
    """Return what each kind of query costs on n items."""
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
            return [[f"{n:,}", *row] for row in _ask(server, X[:N_QUERIES])]
        finally:
            server.terminate()
            server.wait()


def _ask(server: "subprocess.Popen[str]", Q: np.ndarray) -> list[list[str]]:
    address = _address(server)
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    bodies = {
        name: [json.dumps({"vectors": [q.tolist()], "k": 10, **options}) for q in Q]
        for name, options in CASES.items()
    }
    best = {name: (float("inf"), 0.0) for name in CASES}
    for _ in range(ROUNDS):
        for name in CASES:
            before, own = _cpu_s(server.pid), time.process_time()
            for body in bodies[name]:
                connection.request("POST", "/v1/search", body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                answer = response.read()
                assert response.status == 200, answer
            spent = (_cpu_s(server.pid) - before) / len(Q), (time.process_time() - own) / len(Q)
            best[name] = min(best[name], spent)
    return [[name, *(f"{1e3 * part:.2f}" for part in parts)] for name, parts in best.items()]


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
