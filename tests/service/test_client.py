"""The client gives what the index gives, raises what the index raises, and waits for a busy service."""

import os
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

import mihash
from mihash.errors import DuplicateKey, InvalidInput, NotReady, ServiceError, UnknownField, UnknownName
from mihash.service import Limits, Running
from mihash.service.client import Client
from over_http import Caller, rows


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("client") / "index"
    with Running(
        lambda: mihash.OnlineIndex.create(
            folder, n_bits=16, reservoir_size=200, trigger=mihash.TriggerUpdate(0.02, 50, relative=True)
        ),
        token="secret",
        limits=Limits(max_body=1 << 20),
    ) as running:
        Caller(running, "secret").ready()
        yield running


@pytest.fixture
def client(service):
    with Client(service.url, "secret") as client:
        yield client


@pytest.mark.parametrize("token", ["a\r\nX: y", "two words", "é", "", 5])
def test_tokens_that_cannot_be_sent(token):
    with pytest.raises(InvalidInput, match="`token` must be printable ASCII"):
        Client("http://localhost:8000", token)


@pytest.mark.parametrize(
    "url", ["http://localhost:x", "http://localhost:99999", "http://[::1", "localhost:8000", "http://a b", None, 5]
)
def test_addresses_that_cannot_be_asked(url):
    with pytest.raises(InvalidInput, match="`url` must look like http"):
        Client(url)


def test_hosts_that_are_none():
    with pytest.raises(ServiceError, match="did not answer"):
        Client(f"http://{'a' * 70}.invalid", retries=0).stats()


def test_a_life(service, client):
    X, y = rows(300)
    with pytest.raises(NotReady):
        client.rehash()
    assert client.add(X, labels=y) == list(range(300))
    assert client.add(X[:2]) == [300, 301]
    assert client.add(X[:2].tolist(), keys=["a", "7"], metadata=[{"x": 1}, None]) == ["a", "7"]
    index = service.service.index
    index.wait()
    for options in ({}, {"rescore": 20}, {"radius": 2}, {"where": {"x": 1}}):
        hits = index.search(X[:3], 5, **options)
        for queries in (X[:3], X[:3].tolist()):
            found = client.search(queries, 5, **options)
            assert [each.keys for each in found] == [keys.tolist() for keys in hits.keys]
            assert [each.distances for each in found] == [far.tolist() for far in hits.distances]
            assert found[0].metadata is None
            assert (found.version, found.measure) == (hits.version, hits.measure)
            assert (found.unknown_fields, found.missing) == ([], ())
    told = client.search(X[:1], k=400, metadata=True)[0]
    assert told.metadata[told.keys.index("a")] == {"x": 1}
    assert (
        client.search(key="a", k=3)[0].keys
        == [key for key in index.search(X[:1], 4).keys[0].tolist() if key != "a"][:3]
    )
    assert client.get("a")["metadata"] == {"x": 1}
    assert client.get("7")["key"] == "7"  # a text stays one
    assert client.get(7)["key"] == 7
    assert client.delete("a") == 1
    assert client.delete([300, 301]) == 2
    assert client.stats()["items"] == 301
    history = client.history(after=-1)
    assert client.history(after=0, limit=2) == history[1:3]
    assert client.history() == history
    client.rehash()
    index.wait()
    assert client.history(limit=1)[0]["kind"] == "request"
    assert client.versions() == [dict(each) for each in index.versions()]
    client.pause()
    assert client.stats().paused
    client.resume()
    assert not client.stats().paused


def test_more_items_than_a_request_may_get(client):
    keys = client.add(np.zeros((1001, 8), dtype=np.float32))
    assert [item["key"] for item in client.get(keys[::-1])] == keys[::-1]
    with pytest.raises(UnknownName, match="'nobody' is not stored"):
        client.get([*keys, "nobody"])
    assert client.get(np.array(keys[:2]))[1]["key"] == keys[1]
    assert client.get([]) == []
    client.delete(keys)


def test_one_row_may_stand_alone_as_in_the_index(client):
    X, y = rows(4, seed=5)
    (number,) = client.add(X[0])
    assert np.array_equal(client.get(number)["vector"], X[0])
    assert client.add(X[0].tolist(), "one", y[0], {"year": 1999}) == ["one"]
    assert client.add(tuple(X[1].tolist()), np.int64(9001), int(y[1])) == [9001]
    assert (client.get("one")["metadata"], client.get("one")["label"]) == ({"year": 1999}, y[0])
    assert (keys := client.upsert(X[2], "one", y[2])) == ["one"]
    assert keys.replaced == 1
    assert client.upsert(X[:2], ["one", "two"], y[:2]).replaced == 1
    assert client.update("one", X[3], metadata={"year": 2001}) == 1
    assert client.get("one")["metadata"] == {"year": 2001}
    (found,) = client.search(X[3], k=1)
    assert found.keys == ["one"]
    assert client.add(X[:0]) == client.upsert(X[:0], []) == client.add([]) == []
    with pytest.raises(InvalidInput):
        client.upsert(X[:0], ["three"])
    client.delete([number, "one", "two", 9001])


def test_a_client_is_a_collection_of_keys(client):
    before = len(client)
    client.add([[1.0] * 8] * 2, keys=["here", "7002"])
    assert client.contains(["here", 7002, "7002"]) == [True, False, True]
    assert client.contains("here") == [True]
    assert "here" in client
    for other in (7002, np.int64(7002), "there", None, b"here", 1.5, True, 2**70, "\0", "\ud800", ["here"]):
        assert other not in client
    assert len(client) == client.stats().items == client.stats()["items"] == before + 2
    assert list(client)[-2:] == client.keys()[-2:] == ["here", "7002"]
    assert client.contains([]) == []
    client.delete(["here", "7002"])
    assert client


def test_fields_that_no_item_has_are_named(client):
    client.add([[1.0] * 8], keys=["year"], metadata={"year": 1999})
    for call in (
        lambda where: client.search([[1.0] * 8], where=where),
        client.keys,
        client.count,
        lambda where: client.delete(where=where),
    ):
        with pytest.warns(UnknownField, match="No item has the field 'yeer', which `where` asks for"):
            call({"yeer": 1})
    with pytest.warns(UnknownField):
        assert client.search([[1.0] * 8], where={"yeer": 1}).unknown_fields == ["yeer"]
    client.delete("year")


def test_errors_are_the_package_s(client):
    client.add([[0.0] * 8], keys=["twice"])
    with pytest.raises(DuplicateKey, match=r"stored already.*use `upsert`"):
        client.add([[0.0] * 8], keys=["twice"])
    for wrong in ([[0.0]], [[float("nan")] * 8], np.zeros((1, 3))):
        with pytest.raises(InvalidInput, match="`vectors` must"):
            client.add(wrong)
    with pytest.raises(UnknownName, match="'nobody' is not stored"):
        client.get("nobody")
    with pytest.raises(UnknownName):
        client.delete(["nobody"])
    with pytest.raises(InvalidInput):
        client.search()
    with pytest.raises(InvalidInput, match="at most"):
        client.add(np.zeros((40_000, 8)))
    assert client.stats()["items"] >= 1  # the connection is good again after each


def test_keys_that_are_none(client):
    for wrong in (b"x", 1.5, True, None, "\ud800"):
        with pytest.raises(InvalidInput, match="A key must be"):
            client.get(wrong)


@pytest.mark.parametrize(
    ("name", "wrong"), [("retries", -1), ("retries", 1.5), ("timeout_s", 0), ("timeout_s", float("nan"))]
)
def test_options_that_cannot_be_meant(name, wrong):
    with pytest.raises(InvalidInput, match=f"`{name}` must be"):
        Client("http://127.0.0.1:8000", **{name: wrong})


def test_a_filter_longer_than_an_address(client):
    X = np.random.default_rng(2).standard_normal((1, 8)).astype(np.float32)
    client.add(X, keys=["filtered"], metadata=[{"n": 5}])
    where = {"n": {"$in": list(range(20_000))}}
    assert client.search(X, where=where)[0].keys == ["filtered"]
    client.delete("filtered")


def test_a_connection_of_a_high_number(service):
    numbers = [0]
    try:
        while numbers[-1] < 1100:  # beyond what select takes
            numbers.append(os.open(os.devnull, os.O_RDONLY))
        with Client(service.url, "secret") as client:
            assert client.stats()["items"] == client.stats()["items"]  # twice on one connection
    finally:
        for number in numbers[1:]:
            os.close(number)


def test_values_of_numpy(client):
    X = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    keys = [np.int64(7001), np.int64(7002), "n"]
    assert client.add(list(X), keys=keys, labels=[np.int64(1)] * 3, metadata=[{"x": np.float32(2)}] * 3) == keys
    options = {"k": np.int64(2), "rescore": np.int64(5), "where": {"x": np.int64(2)}, "metadata": np.True_}
    for queries in (X, X.tolist()):
        assert client.search(queries, **options)[0].keys[0] == 7001
    assert len(client.search(key=np.int64(7001), k=np.int32(1))[0].keys) == 1
    assert client.get(np.int64(7002))["key"] == 7002
    assert client.delete(np.int64(7001)) == 1
    assert client.delete(np.array([7002])) == 1
    assert client.delete(["n"]) == 1
    for wrong in (X * 1j, (X * 1j)[0], [[1j] * 8], [X[0] * 1j]):
        with pytest.raises(InvalidInput, match=r"real|complex"):
            client.search(wrong)


def test_without_the_token(service):
    with Client(service.url) as stranger:
        with pytest.raises(ServiceError, match="Bearer") as caught:
            stranger.stats()
        assert (caught.value.code, caught.value.status) == ("unauthorized", 401)
        with pytest.raises(ServiceError):
            next(stranger.events())


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://x", "http://"])
def test_addresses(url):
    with pytest.raises(InvalidInput, match="`url`"):
        Client(url)


def test_nobody_there():
    with Client("http://127.0.0.1:9", retries=0) as client:
        with pytest.raises(ServiceError, match="did not answer") as caught:
            client.stats()
        assert caught.value.code == "unreachable"
        with pytest.raises(ServiceError, match="cannot be reached"):
            next(client.events())


class Scripted(BaseHTTPRequestHandler):
    """Answers what a test has put down, in turn."""

    answers: list = []  # noqa: RUF012 -- shared on purpose
    asked: list = []  # noqa: RUF012

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.asked.append((self.path, self.headers.get("Last-Event-ID")))
        status, headers, body = self.answers.pop(0)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Connection" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def scripted():
    server = HTTPServer(("127.0.0.1", 0), Scripted)
    Scripted.answers, Scripted.asked = [], []
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/below/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_busy_service_is_asked_again_when_it_says(scripted, monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    busy = (503, {"Retry-After": "7"}, b'{"error": {"code": "busy", "message": "later"}}')
    long = (503, {"Retry-After": "999"}, busy[2])
    unclear = (503, {"Retry-After": "Fri"}, busy[2])
    Scripted.answers = [busy, long, unclear, (200, {}, b'{"items": 3}')]
    with Client(scripted) as client:
        assert client.stats() == {"items": 3}
        assert slept == [7, 60, 1]
        assert Scripted.asked == [("/below/v1/stats", None)] * 4
    Scripted.answers = [busy] * 3
    with Client(scripted, retries=2) as client:
        with pytest.raises(ServiceError, match="later") as caught:
            client.stats()
        assert (caught.value.code, caught.value.status) == ("busy", 503)
    assert Scripted.answers == []


def test_an_answer_that_is_not_the_service_s(scripted):
    Scripted.answers = [
        (500, {}, b"<html>"),
        (404, {}, b'{"error": 3}'),
        (200, {}, b"<html>"),
        (200, {}, b"[]"),
        (200, {"Connection": "close"}, b"{}"),
    ] * 1
    with Client(scripted) as client:
        for _ in range(4):
            with pytest.raises(ServiceError, match="The service answered"):
                client.stats()
        assert client.stats() == {}
        Scripted.answers = [(200, {}, b'{"items": 1}')]
        assert client.stats() == {"items": 1}  # on a new connection, since the last one was closed


def test_events_go_on_after_a_lost_connection(scripted, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    closed = {"Connection": "close", "Content-Type": "text/event-stream"}
    first = (
        b'retry: 9\n\nevent: stats\ndata: {"items": 1}\n\nid: 4\nevent: decision\ndata: {"number": 4}\n\n: hm\n\n'
    )
    second = b'id: 5\r\nevent: decision\r\ndata: {"number":\r\ndata: 5}\r\n\r\n'
    Scripted.answers = [(200, closed, first), (200, closed, second)]
    with Client(scripted) as client:
        events = client.events()
        found = [next(events) for _ in range(3)]
    assert [(event.name, event.data) for event in found] == [
        ("stats", {"items": 1}),
        ("decision", {"number": 4}),
        ("decision", {"number": 5}),
    ]
    assert Scripted.asked == [("/below/v1/events", None), ("/below/v1/events?after=4", "4")]
    events.close()


HOSTILE = [
    b'{"x": ' + b"[" * 100_000,
    b'{"decisions": 5}',
    b'{"first": 0, "last": 1000000000000}',
    b'{"first": "a", "last": null}',
    b'{"keys": null}',
    b'{"results": [5]}',
    b'{"results": [{"keys": []}]}',
    b'{"deleted": []}',
    b'{"deleted": ' + b"9" * 5000 + b"}",
    b"\xff\xfe",
    b"",
]


@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: body[:20].decode(errors="replace"))
def test_an_answer_of_another_form_is_an_error_of_the_package(scripted, body):
    with Client(scripted) as client:
        calls = (
            lambda: client.add([[1.0]]),
            lambda: client.add([[1.0]], keys=["a"]),
            lambda: client.search([[1.0]]),
            lambda: client.delete(3),
            client.history,
        )
        for call in calls:
            Scripted.answers = [(200, {}, body)]
            with pytest.raises(ServiceError, match=r"is not that of a mihash service|The service answered"):
                call()


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_that_is_too_long(scripted, status):
    """No more of it is read than the client takes, however it is sent."""
    item = b'{"x": "' + b"y" * 991 + b'"}'
    chunked = b"".join(b"400\r\n" + b" " * 1024 + b"\r\n" for _ in range(100)) + b"0\r\n\r\n"
    endless = {"Connection": "close", "Transfer-Encoding": "chunked"}
    with Client(scripted, max_answer=1000) as client:
        for headers, body in (({}, item + b" "), (endless, chunked), ({"Connection": "close"}, b" " * 10_000)):
            Scripted.answers = [(status, headers, body)]
            with pytest.raises(ServiceError, match="more than 1,000 bytes") as caught:
                client.stats()
            assert caught.value.code == "too_long"
        Scripted.answers = [(200, {}, item)] * 2
        assert client.stats() == client.stats() == {"x": "y" * 991}
    with pytest.raises(InvalidInput, match="`max_answer` must be"):
        Client(scripted, max_answer=0)


def test_an_answer_that_does_not_end(scripted):
    """Neither one that is cut off, nor one that comes byte by byte for longer than an answer may take."""
    Scripted.answers = [(200, {"Connection": "close", "Content-Length": "100"}, b'{"items": 1}')]
    with Client(scripted, timeout_s=5) as client, pytest.raises(ServiceError, match="did not answer"):
        client.stats()

    def drip(self):
        self.send_response(200)
        self.end_headers()
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                self.wfile.write(b" ")
            except OSError:
                return
            time.sleep(0.1)

    before, Scripted.do_GET = Scripted.do_GET, drip
    try:
        begin = time.monotonic()
        with Client(scripted, timeout_s=0.5) as client, pytest.raises(ServiceError, match=r"after 0.5 s"):
            client.stats()
        assert time.monotonic() - begin < 5
    finally:
        Scripted.do_GET = before


def test_events_that_are_none(scripted, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    closed = {"Connection": "close", "Content-Type": "text/event-stream"}
    for body, message in (
        (b"data: {\n\n", "The service answered"),
        (b"data: []\n\n", "The service answered"),
        (b"data: " + b"[" * 100_000 + b"\n\n", "The service answered"),
        (b"data: " + b" " * 300_000, "more than 200,000 bytes"),
        (b"data: x\n" * 300_000, "more than 200,000 bytes"),
        (b"\xff\n\n", "cannot be reached"),
    ):
        Scripted.answers = [(200, closed, body)]
        client = Client(scripted, retries=0, max_answer=200_000)
        with pytest.raises(ServiceError, match=message):
            next(client.events())
    Scripted.answers = [(200, closed, "id: ²\ndata: {}\n\nid: ".encode() + b"9" * 5000 + b"\ndata: {}\n\n")]
    with Client(scripted, retries=0) as client:
        events = client.events()
        assert [next(events).data, next(events).data] == [{}, {}]
        events.close()


@pytest.mark.parametrize("vectors", [5, None, [[1.0, {(1, 2): 3}]]])
def test_what_cannot_be_sent(vectors):
    with Client("http://127.0.0.1:9", retries=0) as client, pytest.raises(InvalidInput):
        client.add(vectors)
