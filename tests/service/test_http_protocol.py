"""Requests are parsed by httptools or by h11, with the same answers and the same limits."""

import asyncio
import json
import socket

import pytest

from mihash.service import server
from mihash.service.http_protocol import MOST_HEAD, JoinedWrites, http_protocol
from over_http import Caller, D

HOST = b"Host: localhost\r\n"
POST = b"POST /v1/search HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
LAST = b"Connection: close\r\n"
BODY = json.dumps({"vectors": [[0.5] * D], "k": 1, "rescore": 0}).encode()
LENGTH = f"Content-Length: {len(BODY)}\r\n".encode()
CHUNKS = b"%x\r\n%s\r\n%x\r\n%s\r\n" % (10, BODY[:10], len(BODY) - 10, BODY[10:])


@pytest.fixture(scope="module", params=["h11", "httptools"])
def parsed(request, running):
    """A service with one item, and the name of its parser."""
    protocol = "h11" if request.param == "h11" else http_protocol()
    if protocol == "h11" != request.param:
        pytest.skip("httptools is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "http_protocol", lambda: protocol)
        made = running()
    with made as service:
        call = Caller(service).ready()
        assert call.post("/v1/items", {"vectors": [[0.5] * D]}).status == 201
        yield call


def sent(call, *parts):
    """Send bytes one part after the other, and return everything that comes until the service closes."""
    with socket.create_connection((call.place.hostname, call.place.port)) as connection:
        connection.settimeout(15)
        found = b""
        try:
            for part in parts:
                connection.sendall(part)
            while piece := connection.recv(65536):
                found += piece
        except (ConnectionError, BrokenPipeError):
            pass
        return found


@pytest.mark.parametrize(
    "text",
    [
        POST + LENGTH + LAST + b"\r\n" + BODY,
        POST + b"Transfer-Encoding: chunked\r\n" + LAST + b"\r\n" + CHUNKS + b"0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n" + LAST + b"\r\n" + CHUNKS + b"0\r\nHost: evil.example\r\n\r\n",
        POST + LENGTH + b"Expect: 100-continue\r\n" + LAST + b"\r\n" + BODY,
    ],
    ids=["length", "chunks", "trailers", "expected"],
)
def test_ways_to_send_a_search(parsed, text):
    head, _, body = sent(parsed, text).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert json.loads(body)["results"][0]["keys"] == [0]


def test_two_requests_at_once_are_answered_in_order(parsed):
    found = sent(parsed, POST + LENGTH + b"\r\n" + BODY + b"GET /nowhere HTTP/1.1\r\n" + HOST + LAST + b"\r\n")
    assert found.count(b"HTTP/1.1 ") == 2
    assert found.index(b"HTTP/1.1 200") < found.index(b"HTTP/1.1 404")


@pytest.mark.parametrize("first", [b"OPTIONS *", b"CONNECT a.example:443", b"GET nowhere", b"GET //", b"BREW /"])
def test_addresses_and_methods_that_are_none(parsed, first, caplog):
    found = sent(parsed, first + b" HTTP/1.1\r\n" + HOST + LAST + b"\r\n")
    assert found.startswith(b"HTTP/1.1 4")
    assert parsed.get("/health").status == 200
    assert not caplog.records


@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\n" + HOST + b"X-Long: "])
def test_a_head_without_an_end(parsed, start):
    """It is refused before it takes more memory than a request may."""
    pieces = [b"x" * 16_384] * (8 * MOST_HEAD // 16_384)
    found = sent(parsed, start, *pieces)
    assert not found or found.startswith(b"HTTP/1.1 400")  # nothing where it was reset while the client still sent
    assert parsed.get("/health").status == 200


def test_trailers_without_an_end(parsed):
    head = POST + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS + b"0\r\n"
    found = sent(parsed, head, *[b"X-Long: " + b"x" * 16_384 + b"\r\n"] * 32, b"\r\nGET / HTTP/1.0\r\n\r\n")
    assert found.count(b"HTTP/1.1 200") <= 2
    assert parsed.get("/health").status == 200


class Recorded(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self):
        super().__init__()
        self.written, self.closed = [], False

    def write(self, data):
        self.written.append(data)

    def is_closing(self):
        return self.closed

    def abort(self):
        self.closed = True

    def close(self):
        self.closed = True

    def get_write_buffer_size(self):
        return 7


def test_a_head_is_sent_with_its_body():
    async def write():
        below = Recorded()
        transport = JoinedWrites(below)
        transport.write(b"HTTP/1.1 200 OK\r\n\r\n")
        transport.write(b"one")
        transport.write(b"two")
        transport.write(b"HTTP/1.1 200 OK\r\nevents\r\n\r\n")  # its body comes later
        assert below.written == [b"HTTP/1.1 200 OK\r\n\r\none", b"two"]
        await asyncio.sleep(0)
        assert below.written[2:] == [b"HTTP/1.1 200 OK\r\nevents\r\n\r\n"]
        transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        transport.close()
        assert below.written[3:] == [b"HTTP/1.1 204 No Content\r\n\r\n"]
        assert transport.is_closing()
        assert transport.get_write_buffer_size() == 7

    asyncio.run(write())
