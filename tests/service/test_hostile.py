"""Requests that are made to hold the service up are refused, or stopped in time; nobody else waits for them."""

import threading
import time

import pytest

import mihash
from mihash.errors import InvalidInput, StoreError
from mihash.service import Limits
from over_http import Caller, D, rows

ROW = {"vectors": [[0.5] * D]}


def odd(n):
    """Return a filter of names that no JSON path can say."""
    return {"$or": [{f'"{i}': 1} for i in range(n)]}


@pytest.fixture
def waiting(running):
    """A service with a timeout of half a second, on an index over which such a filter takes several seconds."""
    X, _ = rows(4000)
    fields = {f"field {i}": "x" for i in range(60)}
    with running(limits=Limits(timeout_s=0.5, searchers=2, conditions=400)) as service:
        call = Caller(service).ready()
        index = service.service.index
        index.add(X, metadata=[fields] * len(X))
        index.wait()
        index.search(X[:1], where={"field 1": "x"})  # what is compiled at the first search takes longer than that
        yield call


def test_a_filter_is_stopped_at_the_timeout(waiting):
    answers = []

    def ask(n):
        begin = time.monotonic()
        answer = waiting.post("/v1/search", ROW | {"where": odd(n)})
        answers.append((answer.status, answer.code, time.monotonic() - begin))

    threads = [threading.Thread(target=ask, args=(200 - i,)) for i in range(4)]  # 2 at work, 2 that wait
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer[:2] for answer in answers] == [(504, "timeout")] * 4
    assert max(seconds for _, _, seconds in answers) < 10
    answer = waiting.post("/v1/search", ROW | {"where": {"field 1": "x"}})  # the threads are free again
    assert (answer.status, len(answer.body["results"][0]["keys"])) == (200, 10)


def test_no_other_request_waits_for_a_filter(running):
    with running(limits=Limits(searchers=2)) as service:
        call, release = Caller(service).ready(), threading.Event()
        call.post("/v1/items", ROW)
        jobs = [
            service.service.slow_reads.submit(release.wait) for _ in range(4)
        ]  # every thread for filters, and two that wait
        try:
            assert call.post("/v1/search", ROW).status == 200
            assert call.post("/v1/items", ROW).status == 201
            assert call.get("/health").status == 200
            assert not any(job.done() for job in jobs)
        finally:
            release.set()
        assert call.post("/v1/search", ROW | {"where": {"a": 1}}).status == 200


def test_a_filter_of_too_many_conditions(running):
    with running(limits=Limits(conditions=3)) as service:
        call = Caller(service).ready()
        call.post("/v1/items", ROW)
        for where in (odd(4), {f"f{i}": 1 for i in range(4)}, {"$or": [{"a": {">": 1, "<": 3}}] * 2}):
            answer = call.post("/v1/search", ROW | {"where": where})
            assert (answer.status, answer.code) == (422, "invalid_input")
            assert "`where` must have at most 3 conditions" in answer.message
        assert call.post("/v1/search", ROW | {"where": odd(3)}).status == 200
        assert call.post("/v1/search", ROW | {"where": {"a": list(range(1000))}}).status == 200
    with pytest.raises(InvalidInput, match="`conditions` must be a whole number of 1 to 500"):
        Limits(conditions=501)


def test_metadata_of_an_item_that_is_too_long(running):
    with running(limits=Limits(item_metadata=100)) as service:
        call = Caller(service).ready()
        fits = {"a": "é" * 46}  # 92 bytes and 8 around
        body = {"vectors": [[0.5] * D] * 2, "metadata": [fits, {"a": "é" * 47}]}
        answer = call.post("/v1/items", body)
        assert (answer.status, answer.code) == (422, "invalid_input")
        assert answer.message == "`metadata[1]` must be at most 100 bytes of JSON; got 102."
        assert call.get("/v1/stats").body["items"] == 0
        assert call.post("/v1/items", body | {"metadata": [fits, None]}).status == 201
        assert call.get("/v1/items/0").body["metadata"] == fits


def test_metadata_of_an_answer_that_is_too_long(running):
    X, _ = rows(50)
    with running(limits=Limits(answer_metadata=1000)) as service:
        call = Caller(service).ready()
        call.post("/v1/items", {"vectors": X.tolist(), "metadata": [{"a": "x" * 92}] * 50})  # 100 bytes each
        asked = {"vectors": X[:1].tolist(), "metadata": True}
        assert len(call.post("/v1/search", asked | {"k": 10}).body["results"][0]["metadata"]) == 10
        answer = call.post("/v1/search", asked | {"k": 11})
        assert (answer.status, answer.code) == (422, "invalid_input")
        assert "more than 1,000 bytes" in answer.message
        assert call.post("/v1/search", asked | {"k": 11, "metadata": False}).status == 200


def test_a_body_of_too_many_lists(running):
    """They would be read in one go, in which nothing else in the process goes on."""
    with running(limits=Limits(rows=100, item_metadata=1 << 20)) as service:
        call = Caller(service).ready()
        row, lists = f'{{"vectors": [{[0.5] * D}], "metadata": [{{"a": [', ",".join(["[]"] * 99_994)
        answer = call.post("/v1/items", f"{row}{lists},[]]}}]}}".encode())
        assert (answer.status, answer.code) == (413, "too_large")
        assert "at most 100,000 lists and objects" in answer.message
        assert call.post("/v1/items", f"{row}{lists}]}}]}}".encode()).status == 201
        assert call.get("/v1/items/0").body["metadata"] == {"a": [[]] * 99_994}


def test_metadata_is_made_text_before_the_writer_is_asked_for(running, monkeypatch):
    with running() as service:
        call = Caller(service).ready()
        seen = []
        add = service.service.index.add

        def spied(vectors, **more):
            seen.extend(more["metadata"])
            return add(vectors, **more)

        monkeypatch.setattr(service.service.index, "add", spied)
        assert call.post("/v1/items", ROW | {"metadata": [{"b": 1, "a": [None]}]}).status == 201
        assert seen == ['{"b":1,"a":[null]}']
        assert call.get("/v1/items/0").body["metadata"] == {"b": 1, "a": [None]}
        index = service.service.index
        assert index.verify()["items"] == 1


@pytest.mark.parametrize("kind", ["application/json", "application/octet-stream"])
def test_vectors_that_are_too_wide(running, kind):
    with running(limits=Limits(features=10)) as service:
        call = Caller(service).ready()
        for address in ("/v1/items", "/v1/search"):
            if kind == "application/json":
                answer = call.post(address, {"vectors": [[0.5] * 11]})
            else:
                answer = call.post(f"{address}?features=11", bytes(44), kind=kind)
            assert (answer.status, answer.code) == (422, "invalid_input")
            assert answer.message == "`vectors` must have at most 10 features; got 11."
        assert call.post("/v1/items", {"vectors": [[0.5] * 10]}).status == 201


def test_a_full_disk_blinds_nobody(running, monkeypatch):
    """Whoever looks after the service sees what is on the disk, and that it is full; but not where it is."""
    X, _ = rows(400)
    with running(trigger=mihash.TriggerUpdate(float("inf"), 50)) as service:
        call = Caller(service).ready()
        index = service.service.index
        call.post("/v1/items", {"vectors": X[:300].tolist()})
        assert index.wait(60)
        known = call.get("/v1/history").body["decisions"]
        database = index._table.database
        full = StoreError(
            f"The disk is full, and nothing was changed in {database.path}. Make room and try again."
        )

        def write():
            raise full

        with monkeypatch.context() as patch:  # the disk is full when the rows are stored
            patch.setattr(index._durable, "flush", write)
            assert call.post("/v1/items", {"vectors": X[300:].tolist()}).status == 201
        told = "The disk is full, and nothing was changed in the index. Make room and try again."
        monkeypatch.setattr(database, "write", write)
        for _ in range(2):
            stats = call.get("/v1/stats")
            assert (stats.status, stats.body["write_error"]) == (200, told)
            assert call.get("/v1/history").body["decisions"] == known
            assert call.get("/v1/quality").status == 200
            assert b"\nmihash_write_failing 1\n" in call.get("/metrics").body
        for answer in (call.post("/v1/items", ROW), call("DELETE", "/v1/items/3"), call.post("/v1/pause")):
            assert (answer.status, answer.code, answer.message) == (500, "internal", told)
        assert call.post("/v1/search", ROW).status == 200
        monkeypatch.undo()
        assert call.get("/v1/stats").body["write_error"] is None
        assert b"\nmihash_write_failing 0\n" in call.get("/metrics").body
        assert len(call.get("/v1/history").body["decisions"]) > len(known)
