"""A service as a client meets it: requests over a socket, answers as they are; and rows to send."""

import http.client
import json
import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

import mihash

D = 8
OPTIONS = {"n_bits": 16, "reservoir_size": 200, "trigger": mihash.TriggerUpdate(0.02, 50, relative=True)}


def rows(n, seed=0, classes=4):
    """Return vectors of a few clouds, with the cloud of each."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, size=n)
    centres = 3 * np.random.default_rng(99).standard_normal((classes, D))
    return (centres[y] + rng.standard_normal((n, D))).astype(np.float32), y


def until(condition, within_s=60):
    """Wait until a condition holds; what never comes is a failure, not a test that never ends."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, f"this did not come within {within_s} s"
        time.sleep(0.01)


def received(connection):
    """Return the bytes that come next; a closed connection is a failure."""
    part = connection.recv(65_536)
    assert part, "the service has closed the connection"
    return part


class Answer(NamedTuple):
    status: int
    headers: Any
    body: Any

    @property
    def code(self):
        assert set(self.body) == {"error"}
        assert set(self.body["error"]) == {"code", "message"}
        return self.body["error"]["code"]

    @property
    def message(self):
        return self.body["error"]["message"]


class Caller:
    """Sends requests, each on a connection of its own."""

    def __init__(self, running, token=None):
        self.running, self.url = running, running.url
        self.place = urlsplit(running.url)
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def __call__(self, method, address, body=None, kind="application/json", headers=None):
        connection = http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=120)
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        about = self.headers | ({} if body is None or kind is None else {"Content-Type": kind}) | (headers or {})
        try:
            connection.request(method, address, sent, about)
            response = connection.getresponse()
            data = response.read()
            told = response.getheader("Content-Type", "")
            return Answer(response.status, response.headers, json.loads(data) if "json" in told else data)
        finally:
            connection.close()

    def get(self, address):
        return self("GET", address)

    def post(self, address, body=None, **more):
        return self("POST", address, body, **more)

    def ready(self):
        for _ in range(600):
            if self.get("/ready").status == 200:
                return self
            time.sleep(0.05)
        raise AssertionError("the service did not get ready")
