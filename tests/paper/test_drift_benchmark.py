import dataclasses
import json
from pathlib import Path

import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.paper.drift_benchmark import DriftClaim, DriftJob, Results, drift_jobs, load_drift_claims, run_drift
from mihash.paper.drift_report import claims_table, held_out_table, stream_table, write_drift_report
from mihash.paper.drift_run import RULES, SYSTEMS, run_stream
from mihash.paper.drift_streams import KINDS, make_stream
from mihash.paper.results import write_result

PAGE = Path(__file__).parents[2] / "docs" / "drift.md"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two short streams, as if they were the smoke scale."""
    folder = tmp_path_factory.mktemp("drift")
    jobs = [DriftJob("digits", kind, "follows", 0, "smoke") for kind in ("none", "rotate")]
    for job in jobs:
        stream = make_stream(mihash.datasets.digits(), job.stream, 3600, seed=0)
        found = run_stream(stream, "follows", n_bits=16, reservoir_size=200, top=None, seed=0)
        path = folder / job.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found | {"dataset": "digits"}))
    return jobs, folder


def test_a_run_has_curves_alarms_and_costs(finished):
    jobs, folder = finished
    results = Results(jobs, folder)
    (calm,), (rotated,) = results.of("digits", "none"), results.of("digits", "rotate")
    assert calm["alarms"] == []
    assert rotated["delays"] in ([100], [200])
    assert rotated["false_alarms"] == 0
    assert set(calm["rules"]) == set(SYSTEMS["follows"].rules)
    for rule in calm["rules"].values():
        assert len(rule["precisions"]) == len(calm["examples"]) == 8
        assert rule["cost_ratio"] > 0.999  # no schedule is cheaper than the best
    assert calm["rules"]["always"]["rehashes"] == 36
    assert 1 < calm["rules"]["price"]["rehashes"] < 20
    assert results.figure("digits", "none", "share_of_always") > 0.9
    assert results.figure("digits", "rotate", "delay") <= 200
    assert results.figure("digits", "turn", "area") is None


def test_held_out_queries_are_of_the_classes_so_far(tmp_path):
    stream = make_stream(mihash.datasets.digits(), "classes", 1000, seed=0)
    known = stream.y == stream.y[0]
    held_out = stream.X[known], stream.y[known]  # queries that are in the table
    runs = [
        run_stream(each, "still", n_bits=16, reservoir_size=200, top=None, seed=0)["rules"]["price"]
        for each in (stream, stream._replace(held_out=held_out))
    ]
    assert "area_held_out" not in runs[0]
    assert {name: value for name, value in runs[1].items() if "held_out" not in name} == runs[0]
    assert len(runs[1]["precisions_held_out"]) == len(runs[1]["precisions_held_out_recent"]) == 2
    job = DriftJob("digits", "classes", "still", 0, "smoke")
    write_result(tmp_path / job.path, {"rules": {"price": runs[1]}, "delays": []})
    follows = dataclasses.replace(job, system="follows")
    write_result(tmp_path / follows.path, {"rules": dict.fromkeys(RULES, runs[0]), "delays": []})
    text = held_out_table(Results([job, follows], tmp_path), "digits")
    assert text.splitlines()[2].startswith("| classes | 1 |  |  |  | 0.")
    assert held_out_table(Results([follows], tmp_path), "digits") == ""


def test_claims_are_judged(finished):
    jobs, folder = finished
    results = Results(jobs, folder)
    claim = DriftClaim("a", "It is calm.", "digits", ("none",), "alarms", at_most=0)
    assert claim.judge(results) == (True, "none 0")
    assert dataclasses.replace(claim, measure="area", at_most=None, at_least=2.0).judge(results)[0] is False
    assert dataclasses.replace(claim, streams=("none", "turn")).judge(results) == (None, "not tested")
    assert dataclasses.replace(claim, streams=("*",), at_most=1).judge(results)[0]
    cheaper = dataclasses.replace(claim, measure="cost_of_share", at_most=10)
    assert cheaper.judge(results)[0]
    known = load_drift_claims()
    assert len({claim.id for claim in known}) == len(known) == 32
    for each in known:
        assert (each.at_least is None) != (each.at_most is None)
        assert set(each.streams) <= {*KINDS, "*", "whole"}


def test_costs_that_are_not_positive_are_subtracted(finished, tmp_path):
    jobs, folder = finished
    rules = Results(jobs, folder).of("digits", "none")[0]["rules"]
    for job, cost in zip(jobs, (-30.0, 20.0), strict=True):
        own = {"cost": cost, "best_cost": -50.0, "cost_ratio": None}
        write_result(tmp_path / job.path, {"rules": rules | {"price": own, "share": {"cost": -10.0}}})
    results = Results(jobs, tmp_path)
    claim = DriftClaim("a", "It is cheaper.", "digits", ("none",), "cost_of_share", at_most=1.0)
    assert claim.judge(results) == (True, "none -20 queries (no ratio: costs are not positive)")
    everywhere = dataclasses.replace(claim, streams=("*",))
    assert everywhere.judge(results)[0] is False
    assert everywhere.judge(results)[1].endswith(", rotate +30 queries (no ratio: costs are not positive)")
    near = dataclasses.replace(claim, measure="cost_ratio", at_most=2.8)  # 2.8 times less than nothing is no bar
    assert near.judge(results) == (None, "none +20 queries (no ratio: costs are not positive)")
    assert results.figure("digits", "none", "cost_ratio") is None


def test_every_claim_is_stated_with_its_verdict():
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    verdicts = {row[0].removeprefix("| "): row[1] for row in rows if len(row) == 3}
    for claim in load_drift_claims():
        assert verdicts[claim.statement].strip("*") in ("held", "not held", "no ratio", "not tested"), claim.id


@pytest.mark.needs("matplotlib")
def test_the_report(finished):
    jobs, folder = finished
    page, (picture,) = write_drift_report(jobs, folder, "smoke")
    text = page.read_text()
    assert "| rotate | 1 | **0." in text
    assert picture.read_bytes()[:4] == b"\x89PNG"
    results = Results(jobs, folder)
    assert stream_table(results, "digits").count("\n") == 3
    assert claims_table(results) == ""  # no claim is about the digits


def test_jobs_that_are_done_are_not_run_again(finished):
    jobs, folder = finished
    assert run_drift(jobs, folder) == 0


def test_jobs_of_a_scale():
    smoke = drift_jobs("smoke")
    assert {job.stream for job in smoke} == set(KINDS)
    full = drift_jobs("full", only=["labelme"])
    assert {job.seed for job in full} == {0, 1, 2}
    assert not {job.stream for job in full} & {"classes", "prior", "turn"}
    with pytest.raises(InvalidInput, match="scales smoke and full"):
        drift_jobs("small")
    with pytest.raises(InvalidInput, match="the data sets are digits"):
        drift_jobs("smoke", only=["cifar10"])
    with pytest.raises(InvalidInput, match="`data` must be the folder"):
        run_drift(drift_jobs("full", data=Path("nowhere")), Path("nowhere"))
