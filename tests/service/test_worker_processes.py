"""A service that only reads, and several processes of it; `soak/readers.py` kills them."""

from functools import partial

import pytest

import mihash
from mihash.cli.arguments import open_reader
from mihash.errors import InvalidInput, ReadOnly, StoreError
from mihash.service import Running, serve_readers
from mihash.service.client import Client
from mihash.service.metrics import Metrics
from mihash.service.worker_processes import Worker
from over_http import OPTIONS, Caller, rows

CHANGES = [
    ("POST", "/v1/items", {"vectors": [[0.0] * 8]}),
    ("PUT", "/v1/items", {"vectors": [[0.0] * 8], "keys": [1]}),
    ("PATCH", "/v1/items", {"metadata": [None], "keys": [1]}),
    ("DELETE", "/v1/items/1", None),
    ("POST", "/v1/delete", {"keys": [1]}),
    ("POST", "/v1/rehash", None),
    ("POST", "/v1/pause", None),
    ("GET", "/v1/migration", None),
    ("GET", "/v1/versions/0/distances", None),
]


@pytest.fixture
def followed(tmp_path):
    """An index that is written to here, and a service that reads it."""
    with (
        mihash.OnlineIndex.create(tmp_path / "index", **OPTIONS) as index,
        Running(lambda: mihash.OnlineIndex.open(tmp_path / "index", read_only=True)) as service,
    ):
        yield index, Caller(service).ready()


def test_a_service_that_only_reads_follows_and_changes_nothing(followed):
    index, call = followed
    X, y = rows(400)
    assert call.post("/v1/search", {"vectors": X[:1].tolist()}).body["results"][0]["keys"] == []
    for start in (0, 200):
        index.add(X[start : start + 200], y[start : start + 200])
        index.wait()
        answer = call.post("/v1/search", {"vectors": X[start : start + 3].tolist(), "k": 1}).body
        assert [each["keys"] for each in answer["results"]] == [[start], [start + 1], [start + 2]]
        assert answer["version"] == index.version
        read, written = call.get("/v1/stats").body, index.stats()
        same = ("items", "n_bits", "labels", "version", "decisions", "updates", "paused", "bytes_on_disk")
        assert {name: read[name] for name in same} == {name: written[name] for name in same}
        assert (read["seen"], read["read_only"], read["worker"]) == (index.history()[-1].seen, True, None)
    for method, address, body in CHANGES:
        answer = call(method, address, body)
        assert (answer.status, answer.code) == (403, "read_only"), address
    assert len(index) == 400
    with Client(call.url) as client, pytest.raises(ReadOnly, match="only reads"):
        client.add(X[:1])


def test_a_reader_shows_the_code_length_and_the_decisions_of_the_file(tmp_path):
    """Both were chosen after it was opened."""
    X, _ = rows(400)
    with (
        mihash.open(tmp_path / "index", learner="randomrotation") as index,
        mihash.open(tmp_path / "index", read_only=True) as reader,
    ):
        index.add(X)
        shown = dict(reader.stats())  # before the writer is asked, which would write what it has in memory
        assert (shown["n_bits"], reader.options.n_bits) == (8, 8)
        assert shown["decisions"] == index.stats().decisions > 1
        assert reader.seen == index.history()[-1].seen


def test_a_worker_that_cannot_open_the_index_ends_all(tmp_path):
    with pytest.raises(StoreError, match="There is no index in"):
        serve_readers(partial(open_reader, tmp_path / "nothing"), 1, port=0)


def test_bad_options_are_refused_before_anything_starts(tmp_path):
    with pytest.raises(InvalidInput, match="n_workers"):
        serve_readers(partial(open_reader, tmp_path), 0, port=0)
    with pytest.raises(InvalidInput, match="`token`"):
        serve_readers(partial(open_reader, tmp_path), 1, port=0, token="two words")


class Ended:
    """A process and its connection, after the process has ended."""

    pid, exitcode = 7, -9

    def join(self):
        pass

    def close(self):
        pass

    def recv_bytes(self):
        raise EOFError


def test_a_worker_that_fails_again_and_again_waits_longer():
    worker, waits = Worker(0, lambda _: (Ended(), Ended())), []
    for _ in range(12):
        assert worker.receive() == b""
        assert worker.note_end(now=100.0) == "Worker 0 (process 7) was ended by signal 9"
        waits.append(worker.begin_at - 100)
        worker.begin()
    assert waits[:3] == pytest.approx([0.2, 0.4, 0.8])
    assert waits[-1] == 30
    worker.is_ready = True
    worker.note_end(now=100.0)
    assert worker.begin_at == 100


def test_metrics_of_a_worker_have_its_number():
    metrics = Metrics(worker=3)
    metrics.count_request("/v1/search", 0.1, None)
    lines = [line for line in metrics.text(None, 0.0, {"read": 0}).splitlines() if not line.startswith("#")]
    assert all(line.count('worker="3"') == 1 for line in lines)
    assert 'mihash_waiting{pool="read",worker="3"} 0' in lines
    assert 'mihash_queries_total{worker="3"} 0' in lines
