import json

import pytest

from mihash.online import LEARNERS
from mihash.paper.definition import definition_names, load_definition
from mihash.paper.paper_numbers import PAPER as FILE
from mihash.paper.paper_numbers import covers, paper_rows, slips
from mihash.paper.sources import DATASETS

INFINITY = float("inf")
PAPER = json.loads(FILE.read_text())


@pytest.mark.parametrize(
    "name", [name for name in PAPER["tables"] if name not in ("table1", "table1-setting2", "table3")]
)
def test_the_papers_tables_are_those_of_the_definitions(name):
    table, definition = PAPER["tables"][name], load_definition(name)
    assert (table["draws"], (table["dataset"],), (table["n_bits"],)) == (
        definition.draws,
        definition.datasets,
        definition.bits,
    )
    assert table["dataset"] in DATASETS
    assert set(table["methods"]) == set(definition.methods) - {"mihash"}
    assert set(table["methods"]) <= set(LEARNERS)
    for method, rows in table["methods"].items():
        assert rows == paper_rows(table["draws"], table["dataset"], method)
        keys = {"times": "learning_s", "thetas": "theta", "intervals": "every"}
        assert len({row[keys[table["draws"]]] for row in rows}) == len(rows) > 0
        if table["draws"] == "intervals":
            assert {row["every"] for row in rows} <= set(definition.intervals)


@pytest.mark.parametrize("name", ["table1", "table3"])
def test_the_papers_rows_of_batch_methods_are_settings_of_the_definitions(name):
    table, definition = PAPER["tables"][name], load_definition(name)
    assert set(table["methods"]) == set(definition.methods) - {"itq"}  # which is not in the paper's
    for method, rows in table["methods"].items():
        assert rows == paper_rows(definition.draws, "cifar10", method, table["n_bits"])
        settings = [dict(fit.parameters).get("epochs") == 1 for fit in definition.jobs() if fit.method == method]
        assert {row["one_epoch"] for row in rows} == set(settings)
        for row in rows:
            numbers = row["map"].values() if "map" in row else [row["learning_s"]]
            assert all(0 < number < 2000 for number in numbers)
            assert "map" not in row or set(row["map"]) == {str(n_bits) for n_bits in definition.bits}


def test_every_threshold_has_one_row_of_the_paper_at_most():
    for name in ("table4", "table5", "table6"):
        definition = load_definition(name)
        for run in definition.jobs():
            rows = paper_rows("thetas", run.dataset, run.method)
            n_rows = sum(covers(row, run) for row in rows)
            assert n_rows == 1 or (n_rows == 0 and run.theta not in (None, 0.0, INFINITY))


def test_the_papers_changes_follow_from_its_areas_but_for_the_slip_that_is_noted():
    slips = []
    for name in ("table4", "table5", "table6"):
        for method, (base, *rows) in PAPER["tables"][name]["methods"].items():
            assert base["change"] is None
            for row in rows:
                change = 100 * (row["area"] / base["area"] - 1)
                rounding = 0.05 * (1 + row["area"] / base["area"]) / base["area"]
                printed = 0.5 if row["change"] == round(row["change"]) else 0.05
                if abs(change - row["change"]) > rounding + printed:
                    slips.append((name, method, row["theta"]))
    assert slips == [("table5", "adapthash", ">= 0.01")]


def test_the_papers_slips_are_noted():
    assert {note["item"] for note in PAPER["notes"]} == {*(str(item) for item in range(92, 102)), "101a", "101b"}
    assert {name for note in PAPER["notes"] for name in note["tables"]} <= set(definition_names())


def test_slips_are_told_of_the_papers_data_sets_only():
    definition = load_definition("table4")
    assert any("1.06x" in slip for slip in slips(definition))
    assert list(slips(definition.on(["mine.npz"]))) == []
