"""Stats, history, quality, versions, distances; rehash, pause, resume; health, readiness, metrics."""

import re
import threading

import numpy as np
import pytest

import mihash
from mihash.service import Limits, schemas
from mihash.service.metrics import Metrics, Rate
from over_http import Caller, rows


def index_of(served):
    return served.running.service.index


def test_stats(served):
    found = served.get("/v1/stats").body
    assert found.items() >= dict(index_of(served).stats()).items()
    assert found["seen"] == 600
    assert found["options"]["interval"] == 50
    assert found["uptime_s"] > 0
    assert set(found["rates"]) == {"rows_per_s", "queries_per_s"}


def test_history(served):
    whole = [dict(each) for each in index_of(served).history()]
    assert served.get("/v1/history").body["decisions"] == whole
    assert served.get("/v1/history?after=2&limit=3").body["decisions"] == whole[3:6]
    assert served.get("/v1/history?after=-1&limit=2").body["decisions"] == whole[:2]
    assert served.get("/v1/history?limit=2").body["decisions"] == whole[-2:]
    for query in ("after=-2", "limit=0", "limit=x", "limit=10001", "before=3", "after="):
        answer = served.get(f"/v1/history?{query}")
        assert (answer.status, answer.code) == (422, "invalid_input"), query


def test_schemas_have_the_fields_of_the_records(served):
    index = index_of(served)
    assert set(schemas.Check.model_fields) == set(dict(index.history(limit=1)[0]))
    assert set(schemas.Version.model_fields) == set(dict(index.versions()[0]))
    assert set(schemas.Stats.model_fields) >= set(dict(index.stats())) - {"shards"}


def test_metrics_while_every_reader_is_busy(running):
    with running(limits=Limits(searchers=2, waiting_searches=0)) as service:
        call, release = Caller(service).ready(), threading.Event()
        jobs = [service.service.reads.submit(release.wait) for _ in range(2)]
        assert call.get("/v1/stats").code == "busy"
        text = call.get("/metrics").body.decode()
        assert 'mihash_waiting{pool="read"} 2' in text
        assert "mihash_items" not in text
        release.set()
        assert [job.result() for job in jobs] == [True, True]
        assert "\nmihash_items 0\n" in call.get("/metrics").body.decode()


def test_quality(served):
    points = served.get("/v1/quality").body["points"]
    whole = list(map(dict, index_of(served).history()))
    assert [each["number"] for each in points] == [each["number"] for each in whole]
    assert {each["accepted"] for each in points} == {True, False} or len(points) > 5
    for point, decision in zip(points, whole, strict=True):
        assert point["current"] == decision["current"]
        if decision["snapshot"] is None:
            assert point["theta"] is None
        else:  # the rule of an index without a theta: 2 % of the quality that the table has
            assert point["theta"] == pytest.approx(0.02 * decision["snapshot"])
            assert point["accepted"] == (point["current"] - point["snapshot"] > point["theta"])


def test_quality_with_a_theta_and_infinity(running):
    X, y = rows(300)
    with running(trigger=mihash.TriggerUpdate(float("inf"), 50)) as service:
        call = Caller(service).ready()
        call.post("/v1/items", {"vectors": X.tolist(), "labels": y.tolist()})
        assert call.get("/v1/quality").body["points"][-1]["theta"] == "inf"
        assert call.get("/v1/stats").body["theta"] == "inf"


def test_versions_and_distances(served):
    versions = served.get("/v1/versions").body["versions"]
    assert versions == [dict(each) for each in index_of(served).versions()]
    assert [each["number"] for each in versions] == sorted(each["number"] for each in versions)
    for version in (versions[0]["number"], versions[-1]["number"], "current"):
        found = served.get(f"/v1/versions/{version}/distances").body
        assert found["version"] == (None if version == "current" else version)
        assert (found["n_bits"], found["sample"]) == (16, 200)
        assert len(found["neighbors"]) == len(found["others"]) == 17
        assert sum(found["neighbors"]) == pytest.approx(1)
        assert sum(found["others"]) == pytest.approx(1)
        assert 0 < found["information"] <= 1
    answer = served.get("/v1/versions/9999/distances")
    assert (answer.status, answer.code) == (404, "unknown_version")
    for version in ("-1", "x", "1.5", "01", "9" * 30):
        answer = served.get(f"/v1/versions/{version}/distances")
        assert (answer.status, answer.code) == (422, "invalid_input"), version


def test_before_anything_is_there(empty):
    assert empty.get("/v1/history").body == {"decisions": []}
    assert empty.get("/v1/versions").body == {"versions": []}
    assert empty.get("/v1/quality").body == {"points": []}
    assert empty.get("/v1/stats").body["seen"] == 0
    for method, address in (("GET", "/v1/versions/current/distances"), ("POST", "/v1/rehash")):
        answer = empty(method, address)
        assert (answer.status, answer.code) == (409, "not_ready")


def test_commands(empty):
    X, y = rows(300)
    empty.post("/v1/items", {"vectors": X.tolist(), "labels": y.tolist()})
    index = index_of(empty)
    index.wait()
    before = index.version
    assert empty.post("/v1/pause").body["paused"] is True
    assert index.stats()["paused"]
    assert empty.post("/v1/resume").body["paused"] is False
    answer = empty.post("/v1/rehash")
    assert (answer.status, set(answer.body)) == (202, {"version", "rehashing", "paused"})
    index.wait()
    assert index.version > before
    assert index.history(limit=1)[0]["kind"] == "request"


def test_health_and_readiness(served):
    assert served.get("/health").body == {"status": "ok"}
    assert served.get("/ready").body == {"status": "ready"}


LINE = re.compile(r'^[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+$')


def test_metrics(served):
    served.get("/v1/items/nobody")
    served.post("/v1/search", {"key": 3})
    answer = served.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = answer.body.decode().splitlines()
    values = {}
    for line in lines:
        if not line.startswith("# "):
            assert LINE.match(line), line
            name, _, value = line.rpartition(" ")
            values[name] = float(value)
    typed = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(typed) == len(set(typed))
    assert values["mihash_items"] == values["mihash_rows_total"] == 600
    assert values["mihash_decisions_total"] == len(index_of(served).history())
    assert values["mihash_versions_total"] == len(index_of(served).versions())
    assert values["mihash_rehash_seconds_total"] > 0
    assert values["mihash_rehashing"] == 0
    assert values["mihash_queries_total"] >= 1
    assert values['mihash_errors_total{code="unknown_key"}'] >= 1
    assert values["process_resident_memory_bytes"] > 1e7
    buckets = [value for name, value in values.items() if 'bucket{route="/v1/search"' in name]
    assert buckets == sorted(buckets)
    assert buckets[-1] == values['mihash_request_seconds_count{route="/v1/search"}'] >= 1
    assert not any("nobody" in name for name in values)  # addresses are routes: no client can make more of them


def test_a_rate_is_of_the_last_ten_seconds(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    rate = Rate()
    rate.add(50)
    now[0] = 105.0
    rate.add(100)
    assert rate.per_second() == 30  # 150 in 5 s
    now[0] = 112.0
    assert rate.per_second() == 10
    now[0] = 130.0
    assert rate.per_second() == 0
    assert rate.total == 150


def test_the_histogram_counts_each_request_once():
    metrics = Metrics()
    for seconds in (0.0005, 0.003, 0.003, 99.0):
        metrics.count_request("/x", seconds, None)
    text = metrics.text(None, 0.0, {})
    counts = [int(line.split()[-1]) for line in text.splitlines() if "_bucket" in line]
    assert counts[0] == 1
    assert counts[2] == counts[-2] == 3
    assert counts[-1] == 4
    assert "mihash_items" not in text


def test_alarms_are_decisions_and_are_counted(running):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1500) + 3 * (np.arange(1500) >= 1000)
    X = rng.standard_normal((6, 8))[y] + 0.4 * rng.standard_normal((1500, 8))
    options = {"drift": mihash.DriftWatch(quiet=300), "trigger": mihash.PriceUpdate(5), "reservoir_size": 200}
    with running(learner="momenthash", **options) as service:
        call = Caller(service).ready()
        body = {"vectors": X.tolist(), "labels": y.tolist()}
        assert call.post("/v1/items", body).status == 201
        service.service.index.catch_up()
        (alarm,) = [
            each for each in call.get("/v1/history?limit=100").body["decisions"] if each["kind"] == "alarm"
        ]
        assert alarm["seen"] in (1100, 1200)
        assert alarm["gain"] > 6
        assert call.get("/v1/stats").body["alarms"] == 1
        assert "\nmihash_alarms_total 1\n" in call.get("/metrics").body.decode()
        points = call.get("/v1/quality?limit=100").body["points"]
        assert [point["theta"] for point in points] == [None] * len(points)
