"""Writes to a connection: joined where they are short, in their order, and none is lost."""

import asyncio
import re
import socket

import pytest

from mihash.service.joined_writes import JoinedWrites
from over_http import Caller

LONG = b"z" * 20_000


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

    def get_write_buffer_size(self):
        return 7


@pytest.mark.parametrize(
    ("writes", "now", "later"),
    [
        ([b"head", b"body", b""], [b"headbody"], [b"headbody"]),
        ([b"head"], [], [b"head"]),  # a stream: its first event may be far away
        ([b"head", b""], [b"head"], [b"head"]),
        ([b"head", LONG], [b"head", LONG], [b"head", LONG]),
        ([LONG, b"a", b"b"], [LONG, b"ab"], [LONG, b"ab"]),
        ([b"a", b"b", b"c"], [b"ab"], [b"ab", b"c"]),
        ([b"a", b"b", b"c", "close"], [b"ab", b"c", "closed"], [b"ab", b"c", "closed"]),
    ],
)
def test_writes(writes, now, later):
    async def run():
        kept = Recorder()
        transport = JoinedWrites(kept, asyncio.get_running_loop())
        for data in writes:
            transport.close() if data == "close" else transport.write(data)
        written = [each for each in kept.written if each]
        await asyncio.sleep(0)
        assert (written, [each for each in kept.written if each]) == (now, later)
        assert transport.get_write_buffer_size() == 7
        assert transport.is_closing() == kept.closed

    asyncio.run(run())


def test_requests_on_one_connection_are_answered_in_order(served: Caller):
    """Pipelined, split, and a request that is none: as without joined writes."""
    good = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    missing = b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection((served.place.hostname, served.place.port), timeout=20) as connection:
        connection.sendall(good + missing + good[:9])
        connection.sendall(good[9:] + b"no request\r\n\r\n")
        received = b""
        while part := connection.recv(65_536):
            received += part
    assert re.findall(rb"HTTP/1.1 (\d+) ", received) == [b"200", b"404", b"200", b"400"]
    assert received.endswith(b"Invalid HTTP request received.\r\n0\r\n\r\n")
