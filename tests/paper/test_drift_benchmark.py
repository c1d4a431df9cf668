from dataclasses import replace
from pathlib import Path

import pytest

import mihash
from mihash.errors import CorruptStore, InvalidInput, StoreError
from mihash.paper.claims import Claim, judge, load_claims
from mihash.paper.drift_benchmark import drift_definitions
from mihash.paper.drift_report import CLAIMS, claims_table, make_drift_report
from mihash.paper.drift_run import RULES, SYSTEMS, run_stream
from mihash.paper.drift_streams import KINDS, make_stream
from mihash.paper.drift_tables import DriftFigures, held_out_rows
from mihash.paper.jobs import Job
from mihash.paper.outcomes import Outcome, Study, outcomes
from mihash.paper.results import read_result, write_result
from mihash.paper.runner import check_data, pending, run_tasks
from mihash.paper.tables import make_table

PAGE = Path(__file__).parents[2] / "docs" / "drift.md"
(DIGITS,) = drift_definitions("smoke")


def job_of(stream, system="follows"):
    return Job("drift", "digits", system, (), 32, stream=stream)


def claim_of(streams, measure, **bar):
    return Claim(
        "a",
        "It is calm.",
        "here",
        "stream-figure",
        {"dataset": "digits", "streams": streams, "measure": measure} | bar,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two short streams, as if they were the smoke scale."""
    folder = tmp_path_factory.mktemp("drift")
    for job in (job_of("none"), job_of("rotate")):
        stream = make_stream(mihash.datasets.digits(), job.stream, 3600, seed=0)
        found = run_stream(stream, "follows", n_bits=16, reservoir_size=200, top=None, seed=0)
        write_result(folder / "smoke" / job.path, found | {"dataset": "digits", "scale": "smoke"})
    return folder


@pytest.fixture
def two_streams(monkeypatch):
    """The benchmark with these two jobs alone."""
    jobs = [job_of("none"), job_of("rotate")]
    monkeypatch.setattr("mihash.paper.drift_benchmark.DriftDefinition.jobs", lambda *_: iter(jobs))


def figures_of(folder):
    return DriftFigures(outcomes(DIGITS, folder, "smoke"))


@pytest.mark.usefixtures("two_streams")
def test_a_run_has_curves_alarms_and_costs(finished):
    figures = figures_of(finished)
    (calm,), (rotated,) = figures.trials("none"), figures.trials("rotate")
    assert calm["alarms"] == []
    assert rotated["delays"] in ([100], [200])
    assert rotated["false_alarms"] == 0
    assert set(calm["rules"]) == set(SYSTEMS["follows"].rules)
    for rule in calm["rules"].values():
        assert len(rule["precisions"]) == len(calm["examples"]) == 8
        assert rule["cost_ratio"] > 0.999  # no schedule is cheaper than the best
    assert calm["rules"]["always"]["rehashes"] == 36
    assert 1 < calm["rules"]["price"]["rehashes"] < 20
    assert figures.figure("none", "share_of_always") > 0.9
    assert figures.figure("rotate", "delay") <= 200
    assert figures.figure("turn", "area") is None


def test_held_out_queries_are_of_the_classes_so_far():
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
    made = {
        job_of("classes", system): Outcome(({"rules": rules},), job_of("classes", system))
        for system, rules in (("still", {"price": runs[1]}), ("follows", dict.fromkeys(RULES, runs[0])))
    }
    (row,) = held_out_rows(made)
    assert (row["stream"], row["seeds"], row["2 %"], row["no watch"][:2]) == ("classes", "1", "", "0.")
    assert not list(held_out_rows({job_of("classes"): made[job_of("classes")]}))


@pytest.mark.usefixtures("two_streams")
def test_claims_are_judged(finished):
    study = Study(finished, "smoke")
    calm = judge(claim_of(["none"], "alarms", at_most=0), study)
    assert (calm.word, calm.figures) == ("held", "none 0")
    assert judge(claim_of(["none"], "area", at_least=2.0), study).word == "not held"
    assert judge(claim_of([], "alarms", at_most=1), study).word == "held"
    assert judge(claim_of(["none"], "cost_of_share", at_most=10), study).word == "held"
    for nothing in (claim_of(["none", "turn"], "alarms", at_most=0), claim_of(["none"], "size", at_most=0)):
        with pytest.raises(InvalidInput, match="which its results do not have"):
            judge(nothing, study)
    assert judge(claim_of(["none"], "alarms", at_most=0), Study(Path("nowhere"), "smoke")).word == "not tested"
    known = load_claims(CLAIMS)
    assert len(known) == 32
    for each in known:
        assert len({"at_least", "at_most"} & set(each.parameters)) == 1
        assert set(each.parameters["streams"]) <= {*KINDS, "whole"}


@pytest.mark.usefixtures("two_streams")
def test_costs_that_are_not_positive_are_subtracted(finished, tmp_path):
    for stream, cost in (("none", -30.0), ("rotate", 20.0)):
        result = read_result(finished / "smoke" / job_of(stream).path)
        own = {"cost": cost, "best_cost": -50.0, "cost_ratio": None}
        result["rules"] |= {"price": own, "share": {"cost": -10.0, "best_cost": -50.0}}
        write_result(tmp_path / "smoke" / job_of(stream).path, result)
    study = Study(tmp_path, "smoke")
    verdict = judge(claim_of(["none"], "cost_of_share", at_most=1.0), study)
    assert (verdict.word, verdict.figures) == ("held", "none -20 queries (no ratio: costs are not positive)")
    everywhere = judge(claim_of([], "cost_of_share", at_most=1.0), study)
    assert everywhere.word == "not held"
    assert everywhere.figures.endswith(", rotate +30 queries (no ratio: costs are not positive)")
    near = judge(claim_of(["none"], "cost_ratio", at_most=2.8), study)  # 2.8 times less than nothing is no bar
    assert (near.word, near.figures) == ("not settled", "none +20 queries (no ratio: costs are not positive)")
    assert figures_of(tmp_path).figure("none", "cost_ratio") is None


def test_every_claim_is_stated_with_its_verdict():
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    verdicts = {row[0].removeprefix("| "): row[1] for row in rows if len(row) == 3}
    for claim in load_claims(CLAIMS):
        assert verdicts[claim.statement].strip("*") in ("held", "not held", "not settled", "not tested"), claim.id


@pytest.mark.needs("matplotlib")
@pytest.mark.usefixtures("two_streams")
def test_the_report(finished):
    (page,) = make_drift_report([DIGITS], finished, "smoke")
    text = page.read_text()
    assert "| rotate | 1 | **0." in text
    assert "![Digits](figures/drift-digits.png)" in text
    assert (page.parent / "figures" / "drift-digits.png").read_bytes()[:4] == b"\x89PNG"
    assert [row[0] for row in make_table(DIGITS, finished, "smoke").rows] == ["none", "rotate"]
    assert not claims_table([DIGITS], Study(finished, "smoke")).rows  # no claim is about the digits


def test_claims_about_data_sets_that_were_run_are_listed(tmp_path):
    rows = claims_table(drift_definitions("full", ["cifar10"]), Study(tmp_path, "full")).rows
    assert all(row[0].startswith("CIFAR-10") for row in rows)
    assert {row[1] for row in rows} == {"not tested"}


def test_the_whole_set_is_a_note(finished, monkeypatch, tmp_path):
    jobs = [job_of("none"), job_of("whole")]
    monkeypatch.setattr("mihash.paper.drift_benchmark.DriftDefinition.jobs", lambda *_: iter(jobs))
    result = read_result(finished / "smoke" / job_of("none").path)
    for job in jobs:
        write_result(tmp_path / "smoke" / job.path, result | {"stream": job.stream, "rows": 60_000})
    table = make_table(DIGITS, tmp_path, "smoke")
    assert [row[0] for row in table.rows] == ["none"]
    assert table.notes == ("All 60,000 rows in random order: 0 alarms.",)
    assert not make_table(replace(DIGITS, draws="held-out"), tmp_path, "smoke").rows


@pytest.mark.usefixtures("two_streams")
def test_jobs_that_are_done_are_not_run_again(finished, tmp_path):
    assert pending([DIGITS], finished, "smoke") == []
    path = tmp_path / "smoke" / job_of("none").path
    write_result(path, read_result(finished / "smoke" / job_of("none").path) | {"seed": 4})
    with pytest.raises(StoreError, match="has the seed 4, and 0 is expected"):
        pending([DIGITS], tmp_path, "smoke")
    write_result(path, {"rows": 3})
    with pytest.raises(CorruptStore, match="has no 'alarms'"):
        pending([DIGITS], tmp_path, "smoke")


def test_a_job_is_a_task_of_the_pipeline(monkeypatch, tmp_path):
    made = []

    def run(stream, system, **options):
        made.append((stream.kind, len(stream.X), system, options))
        return {"stream": stream.kind, "system": system, "seed": options["seed"], "rows": len(stream.X)} | {
            "alarms": [],
            "delays": [],
            "rules": {},
        }

    monkeypatch.setattr("mihash.paper.drift_benchmark.run_stream", run)
    jobs = [replace(job_of("rotate"), trial=1), job_of("whole")]
    monkeypatch.setattr("mihash.paper.drift_benchmark.DriftDefinition.jobs", lambda *_: iter(jobs))
    run_tasks(pending([DIGITS], tmp_path, "smoke", seed=3))
    usual = {"n_bits": 32, "reservoir_size": 300, "top": None}
    assert made == [
        ("rotate", 4000, "follows", usual | {"seed": 4, "measured": True}),
        ("none", 1797, "follows", usual | {"seed": 3, "measured": False}),
    ]
    result = read_result(tmp_path / "smoke" / "drift" / "digits" / "whole-follows-0.json")
    assert (result["stream"], result["seed"], result["scale"]) == ("whole", 3, "smoke")
    assert {"versions", "machine", "dataset"} < set(result)
    assert pending([DIGITS], tmp_path, "smoke", seed=3) == []


def test_jobs_of_a_scale():
    assert {job.stream for job in DIGITS.jobs()} == set(KINDS)
    (full,) = drift_definitions("full", ["labelme"])
    assert {job.trial for job in full.jobs()} == {0, 1, 2}
    assert not {job.stream for job in full.jobs()} & {"classes", "prior", "turn"}
    with pytest.raises(InvalidInput, match="scales smoke and full"):
        drift_definitions("small")
    with pytest.raises(InvalidInput, match="the data sets are digits"):
        drift_definitions("smoke", ["cifar10"])
    with pytest.raises(InvalidInput, match="`data` must be the folder"):
        check_data(pending(drift_definitions("full"), Path("nowhere"), "full", Path("nowhere")))
