"""Kill workers that read, and the service that writes; check that every answer has what was acknowledged.

One service writes; another, with several workers, reads the same folder. A thread upserts rows through the writer,
others ask the readers for rows that the writer has acknowledged: each must be found by key, and be nearest to
itself. Meanwhile workers are killed with SIGKILL, and each third time the writer, which is started again. A
request on a connection of the killed process fails, and is sent again; no other may fail.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mihash
from mihash.errors import ServiceError
from mihash.service.client import Client

from .report import console, show_load

__all__ = ["add_arguments", "run"]

_FEATURES, _BATCH = 16, 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=30, help="how many kills (30)")
    parser.add_argument("--workers", type=int, default=3, help="how many workers read (3)")
    parser.add_argument("--askers", type=int, default=4, help="how many clients ask them (4)")
    parser.add_argument("--seed", type=int, default=0, help="what everything is drawn from (0)")
    parser.add_argument("--longest", type=float, default=3.0, help="the most seconds between two kills (3)")


def run(arguments: argparse.Namespace) -> bool:
    base = Path(tempfile.mkdtemp(prefix="mihash-readers-"))
    rng, began = random.Random(arguments.seed), time.perf_counter()
    mihash.OnlineIndex.create(base / "index", 32, trigger=mihash.PriceUpdate(5, 50), reservoir_size=200).close()
    writer = Process(base / "index")
    readers = Process(base / "index", "--read-only", "--workers", str(arguments.workers))
    stopped, known = threading.Event(), Known()
    writing = threading.Thread(target=_write, args=(writer, known, stopped))
    asking = [
        threading.Thread(target=_ask, args=(readers.url, known, stopped, number))
        for number in range(arguments.askers)
    ]
    for thread in (writing, *asking):
        thread.start()
    killed = {"workers": 0, "writers": 0}
    for kill in range(arguments.kills):
        time.sleep(rng.uniform(0.1, arguments.longest))
        if kill % 3 == 2:
            writer.kill()
            writer.start()
            killed["writers"] += 1
        elif pids := readers.workers():
            os.kill(rng.choice(pids), signal.SIGKILL)
            killed["workers"] += 1
    time.sleep(1)
    stopped.set()
    for thread in (writing, *asking):
        thread.join(60)
    left, codes = readers.workers(), (readers.stop(), writer.stop())
    failures = list(known.failures)
    if codes != (0, 0):
        failures.append(f"the services ended with {codes}")
    if any(Path(f"/proc/{pid}").exists() for pid in left):
        failures.append("workers were left behind")
    with mihash.OnlineIndex.open(base / "index") as index:
        lost = [key for key in known.keys if key not in index]
        index.verify()
    for failure in failures[:5]:
        console.print(f"[red]{failure}[/]")
    console.print(
        f"{killed['workers']} kills of workers and {killed['writers']} of the writer: {known.n_answers:,} answers,"
        f" {known.n_broken} broken connections, {len(failures)} failures; {len(known.keys):,} rows acknowledged,"
        f" {len(lost)} lost; {time.perf_counter() - began:.0f} s."
    )
    show_load()
    if not failures and not lost:
        shutil.rmtree(base)
    return not failures and not lost


class Known:
    """Which rows are acknowledged, and what was found."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.n_answers = self.n_broken = 0
        self.failures: list[str] = []


class Process:
    """A service in a process of its own, which can be killed and started again on the same port."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._words = [sys.executable, "-m", "mihash", "serve", str(folder), *options]
        self._port = "0"
        self.start()

    def start(self) -> None:
        words = [*self._words, "--port", self._port]
        self.process: subprocess.Popen[str] = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.url = next((word.rstrip(",") for word in line.split() if word.startswith("http")), "")
        if not self.url:
            _, error = self.process.communicate()
            raise RuntimeError(f"A service did not start: {error}")
        self._port = self.url.rpartition(":")[2]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def stop(self) -> int:
        self.process.terminate()
        self.process.communicate(timeout=120)
        return self.process.returncode

    def workers(self) -> list[int]:
        """Return the processes that answer."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(each) for each in children if b"spawn_main" in _command(each)]


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def vector(key: str) -> NDArray[np.float32]:
    """Return the vector of a key."""
    return np.random.default_rng(int(key)).standard_normal(_FEATURES).astype(np.float32)


def _write(writer: Process, known: Known, stopped: threading.Event) -> None:
    """Upsert rows, each batch until it is acknowledged."""
    n = 0
    while not stopped.wait(0.02):
        keys = [str(number) for number in range(n, n + _BATCH)]
        try:
            with Client(writer.url, retries=100) as client:
                client.upsert([vector(key) for key in keys], keys)
        except ServiceError:
            continue
        known.keys += keys
        n += _BATCH


def _ask(url: str, known: Known, stopped: threading.Event, seed: int) -> None:
    """Ask for acknowledged rows: the newest, and one of all."""
    rng = random.Random(seed)
    while not stopped.wait(0.005):
        try:
            with Client(url, retries=0) as client:
                for _ in range(20):
                    if known.keys:
                        newest = known.keys[-1]
                        _check(client, known, newest if rng.random() < 0.5 else rng.choice(known.keys))
        except ServiceError as error:
            if error.code == "unreachable":
                known.n_broken += 1
            else:
                known.failures.append(f"{error.code}: {error}")
        except Exception as error:
            known.failures.append(repr(error))


def _check(client: Client, known: Known, key: str) -> None:
    true = vector(key)
    item: dict[str, Any] = client.get(key)
    if not np.array_equal(np.float32(item["vector"]), true):
        known.failures.append(f"{key} has another vector")
    found = client.search(true[None], k=1)[0]
    if found.keys != [key]:
        known.failures.append(f"{key} is not found; {found.keys} is")
    known.n_answers += 2
