"""Server-sent events: what comes, how it is resumed, and who is slow."""

import asyncio
import json
import socket
import threading
import time

import pytest

import mihash
from mihash.service import Limits, events
from mihash.service.client import Client
from mihash.service.problems import Problem
from mihash.store.sqlite import code_versions
from over_http import Caller, received, rows


def listened(url, wanted, after=None, longest_s=20):
    """Return events until one is the last that is wanted."""
    found, end = [], time.monotonic() + longest_s
    with Client(url) as client:
        for event in client.events(after):
            found.append(event)
            if wanted(found) or time.monotonic() > end:
                return found
    raise AssertionError("the stream has ended")


def numbers(found):
    return [event.data["number"] for event in found if event.name == "decision"]


def test_what_happens_is_told(running):
    X, y = rows(500)
    with running() as service:
        call = Caller(service).ready()

        def add():
            time.sleep(0.5)
            for part in range(0, 500, 100):
                call.post(
                    "/v1/items",
                    {"vectors": X[part : part + 100].tolist(), "labels": y[part : part + 100].tolist()},
                )

        thread = threading.Thread(target=add)
        thread.start()

        def all_told(found):
            told = {event.data["number"] for event in found if event.name == "version"}
            last = found[-1]
            return len(numbers(found)) >= 11 and told >= {0, 1} and last.name == "stats"

        found = listened(service.url, all_told)
        thread.join()
        index = service.service.index
        index.wait()
        whole = index.history()
        assert found[0].name == "stats"
        assert numbers(found) == list(range(len(numbers(found))))
        told = [event.data for event in found if event.name == "decision"]
        same = ("number", "kind", "seen", "accepted", "gain", "reason", "at")
        assert [[each[name] for name in same] for each in told] == [
            [each[name] for name in same] for each in whole[: len(told)]
        ]
        versions = {each["number"]: each for each in index.versions()}
        for event in found:
            if event.name == "version":
                assert event.data == dict(versions[event.data["number"]])
        stats = [event.data for event in found if event.name == "stats"]
        assert stats[-1]["items"] == 500
        assert "rates" in stats[-1]

        # Who comes back gets what it has missed, and no more.
        resumed = listened(service.url, lambda found: numbers(found)[-1:] == [len(whole) - 1], after=4)
        assert numbers(resumed) == list(range(5, len(whole)))
        assert any(event.name == "version" for event in resumed)
        everything = listened(service.url, lambda found: numbers(found)[-1:] == [len(whole) - 1], after=-1)
        assert numbers(everything) == list(range(len(whole)))
        new = listened(service.url, lambda found: len(found) > 2, after=len(whole) - 1)
        assert numbers(new) == []
        assert numbers(listened(service.url, lambda found: len(found) > 1)) == []


def test_a_clock_that_is_set_back_loses_no_version(running, monkeypatch):
    X, y = rows(200)
    with running(trigger=mihash.TriggerUpdate(float("inf"), 50)) as service:
        call = Caller(service).ready()
        call.post("/v1/items", {"vectors": X.tolist(), "labels": y.tolist()})
        index = service.service.index
        index.wait()
        first = call.get("/v1/history?limit=1").body["decisions"][0]["number"]
        monkeypatch.setattr(code_versions, "now", lambda: "2001-01-01T00:00:00.000+00:00")

        def rehash():
            time.sleep(0.7)
            call.post("/v1/rehash")

        thread = threading.Thread(target=rehash)
        thread.start()

        def told(found):
            return [event.data["number"] for event in found if event.name == "version"]

        found = listened(service.url, lambda found: bool(told(found)) or len(found) > 12)
        thread.join()
        index.wait()
        assert told(found) == [index.version]
        assert index.version > first
        resumed = listened(service.url, lambda found: len(numbers(found)) > 0, after=first)
        assert told(resumed)[-1] == index.version  # who comes back hears of it, too


def test_the_header_resumes(served):
    newest = served.get("/v1/history?limit=1").body["decisions"][0]["number"]
    for header, first in (("3", 4), ("x", None), (str(10**30), None)):
        with socket.create_connection((served.place.hostname, served.place.port)) as connection:
            head = f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: {header}\r\n\r\n"
            connection.sendall(head.encode())
            connection.settimeout(10)
            text = ""
            while "event: stats" not in text or (first is not None and f"id: {newest}\n" not in text):
                text += received(connection).decode()
            assert "text/event-stream" in text
            assert (f"id: {first}\n" in text) == (first is not None)
            assert f"id: {3}\n" not in text
    assert served.get("/v1/events?after=-2").code == "invalid_input"


def test_a_slow_listener_gets_every_decision_and_the_newest_stats(running, monkeypatch):
    monkeypatch.setattr(events, "_PAGE", 7)
    X, y = rows(600)
    with running(reservoir_size=20, trigger=mihash.TriggerUpdate(float("inf"), 4)) as service:
        call = Caller(service).ready()
        call.post("/v1/items", {"vectors": X[:300].tolist(), "labels": y[:300].tolist()})
        first = call.get("/v1/history?limit=1").body["decisions"][0]["number"]
        with socket.create_connection((call.place.hostname, call.place.port)) as connection:
            connection.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(0.5)
            feed = service.service.feed
            assert feed.n_listeners == 1
            for part in range(300, 600, 60):
                call.post(
                    "/v1/items", {"vectors": X[part : part + 60].tolist(), "labels": y[part : part + 60].tolist()}
                )
                time.sleep(0.3)
            last = call.get("/v1/history?limit=1").body["decisions"][0]["number"]
            assert last - first == 75
            text = b""
            connection.settimeout(10)
            while f"id: {last}\n".encode() not in text:
                text += received(connection)
        ids = [int(line[4:]) for line in text.decode().splitlines() if line.startswith("id: ")]
        assert ids == list(range(first + 1, last + 1))
        end = time.monotonic() + 10
        while feed.n_listeners and time.monotonic() < end:
            time.sleep(0.05)
        assert feed.n_listeners == 0


def test_only_so_many_listen(running):
    with running(limits=Limits(listeners=1)) as service:
        call = Caller(service).ready()
        with socket.create_connection((call.place.hostname, call.place.port)) as connection:
            connection.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200" in connection.recv(100)
            time.sleep(0.2)
            answer = call.get("/v1/events")
            assert (answer.status, answer.code) == (503, "busy")
            assert int(answer.headers["Retry-After"]) >= 1


def test_only_so_many_listen_also_at_once(running):
    with running(limits=Limits(listeners=2)) as service:
        call = Caller(service).ready()
        feed = service.service.feed
        read = service.service.read

        async def slow(work):
            await asyncio.sleep(0.3)
            return await read(work)

        async def many():
            return await asyncio.gather(*(feed.listen(None) for _ in range(10)), return_exceptions=True)

        service.service.read = slow
        found = asyncio.run(many())
        assert sum(isinstance(each, Problem) for each in found) == 8
        del found  # streams that nobody has read
        service.service.read = read
        assert feed.n_listeners == 0
        assert call.get("/health").status == 200


@pytest.mark.parametrize("value", [{"x": float("nan"), "y": [float("inf"), 1]}])
def test_an_event_is_one_line_of_json(value):
    message = events._event("stats", value, 7).decode()
    assert message.splitlines()[:2] == ["id: 7", "event: stats"]
    assert json.loads(message.splitlines()[2].removeprefix("data: ")) == {"x": None, "y": ["inf", 1]}
    assert message.endswith("\n\n")
