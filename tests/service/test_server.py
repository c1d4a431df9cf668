"""From opening to closing: readiness, signals, and what is left after a kill."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import mihash
from mihash.errors import MIHashError, ServiceError, StoreLocked
from mihash.service import Limits, Running
from mihash.service.client import Client
from over_http import OPTIONS, Caller, rows, until


def test_ready_only_once_it_is_open(tmp_path):
    held = threading.Event()

    def opening():
        held.wait(20)
        return mihash.OnlineIndex.create(tmp_path / "index", n_bits=16)

    with Running(opening) as service:
        call = Caller(service)
        assert call.get("/health").body == {"status": "ok"}
        for address in ("/ready", "/v1/stats", "/v1/events", "/v1/items/3"):
            answer = call.get(address)
            assert (answer.status, answer.code) == (503, "busy")
            assert "opening" in answer.message
            assert answer.headers["Retry-After"] == "1"
        assert call.get("/metrics").status == 200
        assert call.get("/").status == 200
        held.set()
        call.ready()
        assert call.get("/v1/stats").status == 200


def test_an_index_that_cannot_be_opened(tmp_path):
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=16):
        service = Running(lambda: mihash.OnlineIndex.open(tmp_path / "index"))
        with pytest.raises(StoreLocked), service:
            service._thread.join(20)
    assert service.service.state == "failed"


def test_stopped_while_it_opens(tmp_path):
    held = threading.Event()

    def opening():
        held.wait(20)
        return mihash.OnlineIndex.create(tmp_path / "index", n_bits=16)

    with Running(opening) as service:
        threading.Timer(0.3, held.set).start()
    assert service.service.state == "closed"
    mihash.OnlineIndex.open(tmp_path / "index").close()  # the lock is free


def test_what_was_accepted_is_finished(running):
    """A change that waits when the service is told to end is made, and acknowledged."""
    X, _ = rows(10)
    with running() as service:
        call = Caller(service).ready()
        call.post("/v1/items", {"vectors": X.tolist()})
        go_on = threading.Event()
        service.service.writes.submit(lambda: go_on.wait(60))
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(call.post("/v1/items", {"vectors": X.tolist()})))
        waiting.start()
        listening = Client(service.url).events()
        assert next(listening).name == "stats"
        until(lambda: service.service.writes.n_jobs >= 2)
        stopping = threading.Thread(target=service.stop)
        stopping.start()
        time.sleep(0.5)
        assert service.service.state == "closing"
        with pytest.raises(OSError):  # noqa: PT011 -- refused or reset
            call.get("/health")
        assert stopping.is_alive()
        go_on.set()
        waiting.join()
        stopping.join(20)
        assert [answer.body["items"] for answer in answers] == [20]
    assert service.service.state == "closed"
    with mihash.OnlineIndex.open(service.folder) as index:
        assert len(index) == 20


def test_the_end_comes_between_two_pieces_of_a_large_add(running, monkeypatch):
    """What is stored is acknowledged; what was not learned from it yet is learned after the next start."""
    X, _ = rows(5000)
    catch_up = mihash.OnlineIndex.catch_up

    def learn_at_the_end(index, n=None):
        until(lambda: service.service.writes.closed)
        return catch_up(index, n)

    with running(limits=Limits(piece=50)) as service:
        call = Caller(service).ready()
        monkeypatch.setattr(mihash.OnlineIndex, "catch_up", learn_at_the_end)  # or it may have learned all by then
        answer = call.post("/v1/items?features=8", X.tobytes(), kind="application/octet-stream")
        assert answer.body["added"] == 5000
        assert service.service.index.behind == 4950
        service.stop()
        assert service.service.index.behind == 4900  # the piece that had begun is finished, and no other begins
    monkeypatch.undo()
    with running(folder=service.folder) as again:
        stats = Caller(again).ready().get("/v1/stats").body
        assert (stats["items"], stats["seen"], stats["behind"]) == (5000, 5000, 0)
        fingerprint = again.service.index.current.fingerprint
    with mihash.OnlineIndex.create(service.folder.with_name("whole"), **OPTIONS) as whole:
        whole.add(X)
        assert whole.current.fingerprint == fingerprint


@contextmanager
def started(folder):
    """Run `mihash serve` in a process of its own; give it and its address, and kill it in the end."""
    words = [sys.executable, "-m", "mihash", "serve", str(folder), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert " at http://" in line, process.stderr.read()
            yield process, next(word for word in line.split() if word.startswith("http"))
        finally:
            process.kill()


class Adder(threading.Thread):
    """Adds named rows until the service is gone, and knows which were acknowledged."""

    def __init__(self, url, name):
        super().__init__(daemon=True)
        self.client, self.prefix = Client(url, retries=200), name
        self.acknowledged = []
        self.rng = np.random.default_rng(sum(name.encode()))

    def run(self):
        try:
            for turn in itertools.count():
                X = self.rng.standard_normal((int(self.rng.integers(1, 30)), 8)).astype(np.float32)
                keys = [f"{self.prefix}-{turn}-{row}" for row in range(len(X))]
                self.client.add(X.tolist(), keys=keys)
                self.acknowledged.append((keys, X))
                self.client.search(X[:1], k=3)
        except ServiceError:
            self.client.close()


def under_load(process, url, name, how):
    """Add from four clients, end the service amid that, and return what was acknowledged and how it ended."""
    adders = [Adder(url, f"{name}-{number}") for number in range(4)]
    for adder in adders:
        adder.start()
    end = time.monotonic() + 60
    while sum(len(adder.acknowledged) for adder in adders) < 40 and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(how)
    code = process.wait(60)
    for adder in adders:
        adder.join(60)
        assert not adder.is_alive()
    return [pair for adder in adders for pair in adder.acknowledged], code


def test_everything_acknowledged_is_there(tmp_path):
    """After `kill -9`, and after SIGTERM, both while clients add and search and versions are built."""
    folder = tmp_path / "index"
    mihash.OnlineIndex.create(folder, n_bits=16, reservoir_size=60, trigger=mihash.TriggerUpdate(-1.0, 20)).close()
    with started(folder) as (process, url):
        acknowledged, code = under_load(process, url, "first", signal.SIGKILL)
        assert code == -signal.SIGKILL
    assert len(acknowledged) >= 40
    with started(folder) as (process, url):
        with Client(url, retries=100) as client:
            known, stored = sum(len(X) for _, X in acknowledged), client.stats()["items"]
            assert known <= stored <= known + 4 * 30  # besides, what each client was not told of any more
            for keys, X in acknowledged[::10]:
                assert client.get(keys[-1])["vector"] == X[-1].tolist()
            assert client.search(acknowledged[-1][1][:1], k=1, rescore=1000)[0].distances == [0.0]
            history = client.history(after=-1, limit=10_000)
            assert [each["number"] for each in history] == list(range(len(history)))
        more, code = under_load(process, url, "second", signal.SIGTERM)
        assert code == 0
        assert "everything that was acknowledged is on disk" in process.stderr.read()
    with mihash.OnlineIndex.open(folder) as index:
        for keys, X in acknowledged + more:
            for key, vector in zip(keys, X, strict=True):
                assert np.array_equal(index.get(key).vector, vector)
        index.verify()


def test_a_second_server_fails_before_it_promises_anything(tmp_path):
    folder = tmp_path / "index"
    words = [sys.executable, "-m", "mihash", "serve", str(folder), "--port", "0"]
    with mihash.OnlineIndex.create(folder, n_bits=16):
        result = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"mihash: {folder} is in use: another process serves it or writes to it")


def test_ctrl_c(tmp_path):
    folder = tmp_path / "index"
    mihash.OnlineIndex.create(folder, n_bits=16).close()
    with started(folder) as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_the_extra_is_asked_for(tmp_path):
    """Without FastAPI there is one line that says what to install."""
    (tmp_path / "fastapi.py").write_text("raise ImportError")
    result = subprocess.run(
        [sys.executable, "-m", "mihash", "serve", "--demo"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert result.returncode == 1
    assert result.stderr.strip() == "mihash: The service needs FastAPI and uvicorn: pip install 'mihash[service]'."


def test_errors_are_of_the_package(tmp_path):
    with pytest.raises(MIHashError):
        Running(lambda: mihash.OnlineIndex.open(tmp_path), token="two words")
