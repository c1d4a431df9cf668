"""Writes to a connection: joined where they are short, in their order, and none is lost."""

import asyncio
import re
import socket

import pytest

from mihash.service.response_writes import JoinedWrites
from over_http import Caller, received

LONG = b"z" * 20_000
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Recorder(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self):
        super().__init__()
        self.written, self.closed = [], False

    def write(self, data):
        self.written.append(bytes(data))

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True
        self.written.append("closed")

    def abort(self):
        self.written.append("aborted")

    def get_write_buffer_size(self):
        return 7


@pytest.mark.parametrize(
    ("writes", "written"),
    [
        ([HEAD, b"body", b""], [HEAD + b"body"]),
        ([HEAD, b"bo", b"dy", b""], [HEAD + b"bo", b"dy"]),
        ([HEAD], []),
        ([HEAD, b""], [HEAD]),  # no body, or of a HEAD request
        ([HEAD, LONG, b"", HEAD, b"body"], [HEAD, LONG, HEAD + b"body"]),
        ([HEAD, HEAD, b""], [HEAD + HEAD]),  # a body that looks like a head
        ([HEAD, b"bo", HEAD, b""], [HEAD + b"bo", HEAD]),
        ([STREAM], [STREAM]),  # the first event may be far away
        ([b"HTTP/1.1 100 Continue\r\n\r\n"], [b"HTTP/1.1 100 Continue\r\n\r\n"]),
        ([HEAD, "flush"], [HEAD]),
        ([HEAD, "close"], [HEAD, "closed"]),
        ([HEAD, "abort"], ["aborted"]),
    ],
)
def test_writes(writes, written):
    kept = Recorder()
    transport = JoinedWrites(kept)
    for data in writes:
        getattr(transport, data)() if isinstance(data, str) else transport.write(data)
    assert [each for each in kept.written if each] == written
    assert transport.get_write_buffer_size() == 7
    assert transport.is_closing() == ("close" in writes)


def test_a_response_without_a_body_arrives(served: Caller):
    with socket.create_connection((served.place.hostname, served.place.port), timeout=20) as connection:
        for method in (b"HEAD", b"GET"):
            connection.sendall(method + b" /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"\r\n\r\n" if method == b"HEAD" else b"}"):
                answer += received(connection)
            assert answer.startswith(b"HTTP/1.1 200 " if method == b"GET" else b"HTTP/1.1 ")
            assert b"\r\ncontent-length: " in answer


def test_requests_on_one_connection_are_answered_in_order(served: Caller):
    """Pipelined, split, and a request that is none: as without joined writes."""
    good = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    missing = b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection((served.place.hostname, served.place.port), timeout=20) as connection:
        connection.sendall(good + missing + good[:9])
        connection.sendall(good[9:] + b"no request\r\n\r\n")
        answers = b""
        while part := connection.recv(65_536):
            answers += part
    assert re.findall(rb"HTTP/1.1 (\d+) ", answers) == [b"200", b"404", b"200", b"400"]
    assert answers.endswith(b"Invalid HTTP request received.\r\n0\r\n\r\n")
