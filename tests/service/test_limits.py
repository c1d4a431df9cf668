"""What is too large, too slow or too much has its answer, and the memory stays."""

import asyncio
import json
import socket
import threading
import time

import pytest

from mihash.errors import InvalidInput
from mihash.service import Limits
from mihash.service.client import Client
from mihash.service.problems import Problem
from mihash.service.schemas import DeleteBody, ItemsBody, SearchBody
from mihash.service.thread_pools import ThreadPool
from over_http import Caller, D, rows, until

FLOATS = "application/octet-stream"
ROW = {"vectors": [[0.5] * D]}
HEAD = b"POST /v1/items HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class Plug:
    """Keeps the threads of a pool busy until it is pulled."""

    def __init__(self, pool, n=1):
        self._pulled = threading.Event()
        self._jobs = [pool.submit(lambda: self._pulled.wait(60)) for _ in range(n)]  # a test that fails ends
        time.sleep(0.1)

    def pull(self):
        self._pulled.set()
        for job in self._jobs:
            job.result()


def raw(call, text, then=b"", wait_s=0.0):
    """Send bytes as they are, and return everything that comes until the service closes."""
    with socket.create_connection((call.place.hostname, call.place.port)) as connection:
        connection.settimeout(15)
        connection.sendall(text)
        time.sleep(wait_s)
        try:
            connection.sendall(then)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
        except (ConnectionError, BrokenPipeError):
            pass
        return b"".join(parts)


@pytest.fixture(scope="module")
def small(running):
    """A service that takes 4096 bytes at a time and waits for nobody."""
    limits = Limits(max_body=4096, bodies=2, body_s=0.5, header_s=0.5, stall_s=0.5)
    with running(limits=limits) as service:
        yield Caller(service).ready()


def test_a_body_that_is_too_large(small):
    for n in (4097, 100_000, 3_000_000):
        answer = small.post("/v1/items", b"x" * n)
        assert (answer.status, answer.code) == (413, "too_large")
        assert "at most 4,096 bytes" in answer.message
    assert small.post("/v1/items", json.dumps(ROW).encode().ljust(4096)).status == 201
    assert small.post("/v1/search", b" " * 5000).code == "too_large"
    assert small.post("/v1/delete", b" " * 5000).code == "too_large"


def test_a_body_of_unsaid_length_that_gets_too_large(small):
    chunks = b"".join(b"400\r\n" + b" " * 1024 + b"\r\n" for _ in range(5)) + b"0\r\n\r\n"
    found = raw(small, HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks)
    assert found.startswith(b"HTTP/1.1 413")
    assert b'"too_large"' in found


def test_a_body_is_refused_before_it_is_sent(small):
    """Who asks first, as curl does, need not send it."""
    found = raw(small, HEAD + b"Content-Length: 9000000\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 413")


def test_a_body_that_comes_too_slowly(small):
    head = HEAD + b"Content-Length: 100\r\n\r\n"
    begin = time.monotonic()
    found = raw(small, head + b'{"vectors":')
    assert 0.4 < time.monotonic() - begin < 5
    assert found.startswith(b"HTTP/1.1 408")
    assert json.loads(found.partition(b"\r\n\r\n")[2])["error"]["code"] == "timeout"
    assert small.get("/health").status == 200


def test_a_head_that_comes_too_slowly(small):
    for text in (b"", b"GET /health HTT", b"GET /health HTTP/1.1\r\nHost: local"):
        begin = time.monotonic()
        assert raw(small, text) == b""
        assert 0.4 < time.monotonic() - begin < 5
    kept = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert raw(small, kept, then=b"GET /hea", wait_s=0.2).count(b"HTTP/1.1 200") == 1


def test_a_client_that_leaves_in_the_middle(small):
    head = HEAD + b"Content-Length: 100\r\n\r\n"
    for text in (head, head + b'{"vectors"', b"\r\n"):
        with socket.create_connection((small.place.hostname, small.place.port)) as connection:
            connection.sendall(text)
    time.sleep(0.2)
    assert small.get("/health").status == 200
    assert small.running.service.bodies.n_bytes == 0


def test_a_client_that_does_not_take_its_answer(running):
    X, _ = rows(2000)
    with running(limits=Limits(stall_s=0.5)) as service:
        call = Caller(service).ready()
        call.post(f"/v1/items?features={D}", X.tobytes(), kind=FLOATS)
        body = X[:400].tobytes()
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(15)
        with connection:
            connection.connect((call.place.hostname, call.place.port))
            head = f"POST /v1/search?features={D}&k=2000 HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FLOATS}\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            connections = service._server.server_state.connections
            end = time.monotonic() + 20
            while connections and time.monotonic() < end:
                time.sleep(0.1)
            assert not connections


def test_a_slow_client_that_takes_its_answer(running):
    X, _ = rows(2000)
    keys = list(range(10**18, 10**18 + 2000))
    with running(limits=Limits(stall_s=1.0)) as service:
        call = Caller(service).ready()
        call.post("/v1/items", {"vectors": X.tolist(), "keys": keys})
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        with connection:
            connection.connect((call.place.hostname, call.place.port))
            connection.settimeout(15)
            body = X[:500].tobytes()
            head = f"POST /v1/search?features={D}&k=2000 HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FLOATS}\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = connection.makefile("rb")
            assert b" 200 " in answer.readline()
            said = dict(line.split(b": ") for line in iter(answer.readline, b"\r\n"))
            left = int(said[b"content-length"])
            assert left > 20_000_000
            while left:
                part = answer.read(min(left, 1 << 20))
                assert part, f"closed with {left:,} bytes left"
                left -= len(part)
                time.sleep(0.1)


def test_many_bodies_at_a_time(running):
    limits = Limits(max_body=1000, bodies=2, body_s=10)
    with running(limits=limits) as service:
        call = Caller(service).ready()
        slow = [socket.create_connection((call.place.hostname, call.place.port)) for _ in range(2)]
        for connection in slow:
            connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\n" + b" " * 990)
        time.sleep(0.3)
        answer = call.post("/v1/items", ROW)
        assert (answer.status, answer.code) == (503, "busy")
        for connection in slow:
            connection.close()
        time.sleep(0.3)
        assert call.post("/v1/items", ROW).status == 201


def test_back_pressure(running):
    with running(limits=Limits(waiting_writes=2)) as service:
        call = Caller(service).ready()
        call.post("/v1/items", ROW)
        plug = Plug(service.service.writes)
        answers = []
        waiting = [threading.Thread(target=lambda: answers.append(call.post("/v1/items", ROW))) for _ in range(2)]
        for thread in waiting:
            thread.start()
        until(lambda: service.service.writes.n_jobs >= 3)
        for method, address, body in (
            ("POST", "/v1/items", ROW),
            ("DELETE", "/v1/items/0", None),
            ("POST", "/v1/rehash", None),
        ):
            answer = call(method, address, body)
            assert (answer.status, answer.code) == (503, "busy")
            assert 1 <= int(answer.headers["Retry-After"]) <= 60
        assert call.post("/v1/search", ROW).status == 200  # searches do not wait for the writer
        assert call.get("/v1/stats").body["items"] == 1
        assert call.get("/ready").status == 200
        plug.pull()
        for thread in waiting:
            thread.join()
        assert [answer.status for answer in answers] == [201, 201]
        assert call.get("/v1/stats").body["items"] == 3


def test_only_so_many_searches(running):
    with running(limits=Limits(searchers=2, waiting_searches=0)) as service:
        call = Caller(service).ready()
        plug = Plug(service.service.reads, 2)
        answer = call.post("/v1/search", ROW)
        assert (answer.status, answer.code) == (503, "busy")
        assert call.post("/v1/items", ROW).status == 201
        plug.pull()
        assert call.post("/v1/search", ROW).status == 200


def test_what_takes_too_long(running):
    with running(limits=Limits(timeout_s=0.3)) as service:
        call = Caller(service).ready()
        call.post("/v1/items", ROW)
        plug = Plug(service.service.writes)
        answer = call.post("/v1/items", ROW)
        assert (answer.status, answer.code) == (504, "timeout")
        assert "was not processed" in answer.message
        plug.pull()
        assert call.post("/v1/items", ROW).body["items"] == 2  # the one that was given up is not stored later


def test_a_change_that_has_begun_is_made(running, monkeypatch):
    with running(limits=Limits(timeout_s=0.3)) as service:
        call = Caller(service).ready()
        index = service.service.index
        add = index.add
        monkeypatch.setattr(index, "add", lambda *given, **more: (time.sleep(0.8), add(*given, **more))[1])
        answer = call.post("/v1/items", ROW)
        assert (answer.status, answer.code) == (504, "timeout")
        assert "will still be made" in answer.message
        time.sleep(1)
        assert call.get("/v1/stats").body["items"] == 1


def test_a_search_that_takes_too_long_is_no_change(running, monkeypatch):
    with running(limits=Limits(timeout_s=0.3)) as service:
        call = Caller(service).ready()
        monkeypatch.setattr(service.service.index, "search", lambda *_, **__: time.sleep(0.8))
        answer = call.post("/v1/search", ROW)
        assert (answer.status, answer.code) == (504, "timeout")
        assert "made" not in answer.message
        assert "was discarded" in answer.message


def test_large_bodies_are_parsed_apart(running, monkeypatch):
    """While large bodies are parsed, everything else is answered."""
    X, _ = rows(4000)
    large = json.dumps({"vectors": X.tolist()}).encode()
    with running() as service:
        call = Caller(service).ready()
        call.post("/v1/items", ROW)
        release, begun, answers = threading.Event(), [], []
        for schema in (ItemsBody, SearchBody, DeleteBody):

            def slow(body, parse=schema.parse):
                if len(body) > 40_000:
                    begun.append(len(body))
                    release.wait(20)
                return parse(body)

            monkeypatch.setattr(schema, "parse", slow)
        asked = [("/v1/items", large), ("/v1/search", large), ("/v1/delete", b'{"keys": []}'.ljust(70_000))]
        waiting = [
            threading.Thread(target=lambda each=each: answers.append(call.post(*each).status)) for each in asked
        ]
        for thread in waiting:
            thread.start()
        until(lambda: len(begun) == 3)
        for address in ("/health", "/ready", "/v1/stats", "/metrics", "/v1/items/0"):
            assert call.get(address).status == 200
        assert call.post("/v1/search", ROW).status == 200
        assert call.post("/v1/search", {"key": 0}).status == 200
        assert call.post("/v1/items", ROW).status == 201
        assert not answers
        release.set()
        for thread in waiting:
            thread.join()
        assert sorted(answers) == [200, 200, 201]


def test_a_large_add_holds_nobody_up(running, monkeypatch):
    """It is stored at once and answered; other changes come between the pieces in which it is learned from."""
    X, _ = rows(3000)
    with running(limits=Limits(piece=500, rows=3000)) as service:
        call, index = Caller(service).ready(), service.service.index
        catch_up = index.catch_up
        monkeypatch.setattr(index, "catch_up", lambda n: (time.sleep(0.3), catch_up(n))[1])
        answer = call.post(f"/v1/items?features={D}", X.tobytes(), kind=FLOATS)
        assert answer.body == {"added": 3000, "first": 0, "last": 2999, "items": 3000}
        assert call("DELETE", "/v1/items/5").status == 200
        answer = call.post("/v1/search", {"vectors": [X[2999].tolist()], "rescore": 3000, "k": 1})
        assert answer.body["results"][0]["keys"] == [2999]
        answer = call.post("/v1/items", {"vectors": X[:2900].tolist()})
        assert 0 < call.get("/v1/stats").body["behind"] < 3000  # still learning, so those came between
        assert (answer.status, answer.code) == (503, "busy")
        assert "wait to be learned from" in answer.message
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
        end = time.monotonic() + 60
        while index.behind and time.monotonic() < end:
            time.sleep(0.02)
        assert index.seen == 3000
        assert call.post("/v1/items", {"vectors": X[:2900].tolist()}).status == 201


def test_only_changes_are_waited_for_at_the_end():
    pulled, done = threading.Event(), []
    reads, changes = ThreadPool("read", 1, 2), ThreadPool("write", 1, 2, writes=True)
    running, waiting = reads.submit(pulled.wait), reads.submit(lambda: done.append("read"))
    for name in ("first", "second"):
        changes.submit(lambda name=name: (time.sleep(0.2), done.append(name)))
    begin = time.monotonic()
    for pool in (changes, reads):
        pool.close()
    assert time.monotonic() - begin < 5
    assert done == ["first", "second"]
    assert waiting.cancelled()
    assert not running.done()
    for pool in (changes, reads):
        with pytest.raises(Problem, match="closing"):
            pool.submit(lambda: None)
    pulled.set()
    assert running.result(5)
    assert reads.n_jobs == 0


def test_a_read_that_is_abandoned_at_the_end_is_answered():
    async def run():
        pool, release = ThreadPool("read", 1, 1), threading.Event()
        pool.submit(release.wait)
        waiting = asyncio.create_task(pool.run(lambda: None, timeout_s=60))
        await asyncio.sleep(0)
        pool.close()
        release.set()
        with pytest.raises(Problem, match="closing"):
            await waiting

    asyncio.run(run())


def test_json_may_be_less_than_raw_rows(running):
    with running(limits=Limits(max_json=1000)) as service:
        call = Caller(service).ready()
        answer = call.post("/v1/items", b" " * 1001)
        assert (answer.status, answer.code) == (413, "too_large")
        assert "JSON must be at most 1,000 bytes" in answer.message
        assert "application/x-npy" in answer.message
        assert call.post(f"/v1/items?features={D}", rows(100)[0].tobytes(), kind=FLOATS).status == 201


def test_only_so_many_rows_and_comparisons(running):
    X, _ = rows(60)
    with running(limits=Limits(rows=50, compared=500)) as service:
        call = Caller(service).ready()
        for body, kind in ((json.dumps({"vectors": X[:51].tolist()}).encode(), None), (X[:51].tobytes(), FLOATS)):
            address = "/v1/items" if kind is None else f"/v1/items?features={D}"
            answer = call.post(address, body, kind=kind or "application/json")
            assert (answer.status, answer.code) == (422, "invalid_input")
            assert "Send them in parts" in answer.message
        assert call.post("/v1/items", {"vectors": X[:50].tolist()}).status == 201
        assert call.post("/v1/search", {"vectors": X[:10].tolist(), "k": 1}).status == 200
        answer = call.post("/v1/search", {"vectors": X[:11].tolist(), "k": 1})
        assert (answer.status, answer.code) == (422, "invalid_input")
        assert "send at most 10 at a time" in answer.message


@pytest.mark.parametrize(
    "text", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nno head\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n"]
)
def test_what_is_not_http(empty, text, caplog):
    assert raw(empty, text).startswith(b"HTTP/1.1 400")
    assert empty.get("/health").status == 200
    assert not caplog.records


def test_a_body_that_is_not_http(empty, caplog):
    """The chunks are broken: the request has begun, its answer has not."""
    found = raw(empty, HEAD + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 400")
    assert found.count(b"HTTP/1.1 4") == 1
    assert empty.get("/health").status == 200
    assert not caplog.records


def test_an_upgrade_is_not_taken_and_not_told_to_the_log(empty, caplog):
    upgrade = (
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close, upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    assert raw(empty, upgrade).startswith(b"HTTP/1.1 200")
    assert not caplog.records


def test_only_so_many_requests_at_a_time(running):
    with running(limits=Limits(connections=3, listeners=2)) as service:
        call = Caller(service).ready()
        plug = Plug(service.service.writes)
        waiting = [threading.Thread(target=call.post, args=("/v1/items", ROW)) for _ in range(3)]
        for thread in waiting:
            thread.start()
        until(lambda: service.service.writes.n_jobs >= 4)
        for method, body in (("GET", None), ("POST", b"{}")):
            answer = call(method, "/v1/stats", body)
            assert (answer.status, answer.code) == (503, "busy")
            assert answer.headers["Retry-After"] == "5"
        assert call.get("/health").status == 200
        assert call.get("/ready").status == 200
        listening = [Client(service.url).events() for _ in range(2)]  # they have a limit of their own
        assert [next(events).name for events in listening] == ["stats", "stats"]
        assert call.get("/v1/events").code == "busy"
        plug.pull()
        for thread in waiting:
            thread.join()
        assert call.get("/v1/stats").body["items"] == 3
        for events in listening:
            events.close()


def test_only_so_many_connections(running):
    with running(limits=Limits(connections=1, listeners=1)) as service:  # 2 * 1 + 1 are kept
        call = Caller(service).ready()
        kept = [socket.create_connection((call.place.hostname, call.place.port)) for _ in range(3)]
        assert call.get("/health").status == 503
        for connection in kept:
            connection.close()
        end = time.monotonic() + 10
        while call.get("/v1/stats").status != 200:
            assert time.monotonic() < end
            time.sleep(0.05)


def test_a_body_of_two_lengths(small):
    """A proxy may see its end elsewhere: it is refused, and the connection closed, so that nothing follows it."""
    both = b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"
    found = raw(small, HEAD + both, then=b"ET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", wait_s=0.2)
    assert found.startswith(b"HTTP/1.1 400")
    assert b"connection: close" in found.lower()
    assert b"not both" in found
    assert found.count(b"HTTP/1.1 ") == 1
    assert small.get("/health").status == 200


def test_head(empty):
    for address in ("/", "/docs", "/page/page.js", "/openapi.json", "/health", "/ready"):
        text = f"HEAD {address} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        head, _, body = raw(empty, text.encode()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert body == b""


def test_a_fault_is_told_and_counted(running, monkeypatch, caplog):
    with running() as service:
        call = Caller(service).ready()

        def broken(*_, **__):
            raise ZeroDivisionError("secret detail")

        monkeypatch.setattr(service.service.index, "search", broken)
        answer = call.post("/v1/search", ROW)
        assert (answer.status, answer.code) == (500, "internal")
        assert "secret" not in answer.message
        assert "secret detail" in caplog.text
        assert b'mihash_errors_total{code="internal"} 1' in call.get("/metrics").body


@pytest.mark.parametrize("wrong", [{"max_body": 0}, {"timeout_s": 0}, {"waiting_writes": -1}, {"searchers": 1.5}])
def test_limits_are_checked(wrong):
    with pytest.raises(InvalidInput):
        Limits(**wrong)
