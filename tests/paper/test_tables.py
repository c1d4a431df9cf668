import pytest
from made_up import define, write

from mihash.errors import InvalidInput
from mihash.paper.definition import load_definition
from mihash.paper.tables import make_table

OURS = "MIHash, whitened (ours)"

INFINITY = float("inf")
STAND_IN = "Compare order, ratios and signs, not absolute numbers."


def test_thetas(tmp_path):
    definition = define("thetas", thetas=(-0.1, 0.0, 0.1, INFINITY))
    updates = {None: 201, -0.1: 200, 0.0: 8, 0.1: 2, INFINITY: 1}
    areas = {None: 0.25, -0.1: 0.25, 0.0: 0.3, 0.1: 0.3, INFINITY: 0.125}
    write(
        tmp_path,
        definition,
        lambda run: {"updates": updates[run.theta] + run.trial, "area": areas[run.theta] + 0.02 * run.trial},
    )
    table = make_table(definition, tmp_path, "smoke")
    ours = ("method", "theta", "updates", "AUC", "change")
    assert table.columns == (*ours, "paper: updates", "paper: AUC", "paper: change")
    assert table.rows == (
        ("OKH", "fixed rate", "201.5", "0.260", "", "201", "0.259", ""),
        ("OKH", "-0.1", "200.5 (1.0x)", "0.260", "+0.0 %", "201", "0.259", ""),
        ("OKH", "0", "8.5 (23.7x)", "0.310", "+19.2 %", "8 (25.1x)", "0.287", "+10.8 %"),
        ("OKH", "0.1", "2.5 (80.6x)", "0.310", "+19.2 %", "", "", ""),
        ("OKH", "inf", "1.5 (134.3x)", "0.135", "-48.1 %", "1 (201.0x)", "0.134", "-48.3 %"),
    )
    assert "Means over 2 trials; the largest standard deviation over them is 0.000" in table.notes[0]
    assert table.notes[0].endswith("0.014 for AUC.")  # 0.02 / sqrt(2)
    assert table.notes[1].endswith(f"CIFAR-10 is 'cifar10 (digits)', the shipped digits. {STAND_IN}")
    assert any("1.06x" in note for note in table.notes)


def test_thetas_without_the_fixed_rate_have_no_ratio(tmp_path):
    definition = define("thetas", fixed=False)
    write(tmp_path, definition, {})
    table = make_table(definition, tmp_path, "smoke")
    assert table.columns == ("method", "theta", "updates", "AUC", "paper: updates", "paper: AUC", "paper: change")
    assert table.rows[0][:4] == ("OKH", "0", "1", "0.500")


def test_intervals(tmp_path):
    definition = define("intervals", methods=("sketchhash",), intervals=(0.5, 2.0))
    updates = {(None, 0.5): 401, (0.0, 0.5): 10, (None, 2.0): 101, (0.0, 2.0): 4}
    write(
        tmp_path,
        definition,
        lambda run: {"updates": updates[run.theta, run.every], "area": 0.3 if run.theta is None else 0.33},
    )
    table = make_table(definition, tmp_path, "smoke")
    assert table.columns[:5] == ("method", "U", "updates", "final mAP", "AUC")
    start = ("0.500 -> 0.500", "0.300 -> 0.330 (+10.0 %)")
    theirs = ("400 -> 9 (44.4x)", "0.306 -> 0.318", "0.303 -> 0.318 (+5.0 %)")
    assert table.rows == (
        ("SketchHash", "50", "401 -> 10 (40.1x)", *start, *theirs),
        ("SketchHash", "200", "101 -> 4 (25.2x)", *start, "", "", ""),
    )


def test_missing_labels(tmp_path):
    definition = define("missing", methods=("mihash",), bits=(16,), thetas=(), missing=(0.0, 0.4))
    write(tmp_path, definition, lambda run: {"final": 0.8 - run.missing / 10})
    table = make_table(definition, tmp_path, "smoke")
    assert table.columns[-3:] == ("labels missing", "final mAP", "against all labels")
    assert [row[-3:] for row in table.rows] == [("0 %", "0.800", ""), ("40 %", "0.760", "-5.0 %")]


def test_learners(tmp_path):
    definition = define("learners", methods=("lsh", "momenthash"), bits=(8, 16), thetas=())
    write(
        tmp_path,
        definition,
        lambda run: {
            "examples": [0, 100, 2000],
            "precisions": [0.1, 0.2 + 0.1 * run.trial, 0.9],
            "final": 0.9,
            "area": run.n_bits / 100,
            "times": {"learning_s": 0.02 + 0.02 * run.trial, "deciding_s": 0},
        },
    )
    table = make_table(definition, tmp_path, "smoke")
    assert table.columns == ("bits", "method", "final mAP", "AUC", "early", "us per example")
    assert table.rows[0] == ("8", "LSH", "0.900", "0.080", "0.250", "15.0")
    assert [row[:2] for row in table.rows] == [
        ("8", "LSH"),
        ("16", "LSH"),
        ("8", "MomentHash"),
        ("16", "MomentHash"),
    ]
    assert any('"early" is mAP after a twentieth' in note for note in table.notes)


def test_an_interval_below_a_batch_is_left_out(tmp_path):
    definition = define("intervals", methods=("okh", "sketchhash"), intervals=(0.1, 1.0))
    write(
        tmp_path,
        definition,
        lambda run: {"updates": 9, "area": run.trial if run.method != "okh" and run.every < 1 else 0.5},
    )
    table = make_table(definition, tmp_path, "smoke")
    assert [row[:2] for row in table.rows] == [("OKH", "10"), ("OKH", "100"), ("SketchHash", "100")]
    assert "is 0.000 for the final mAP and 0.000 for AUC" in table.notes[0]  # not those of what is left out
    assert sum(note.startswith("SketchHash at U x 0.1 was run and is left out") for note in table.notes) == 1
    elsewhere = define("intervals", datasets=("places205",), methods=("sketchhash",), intervals=(0.1, 1.0))
    write(tmp_path, elsewhere, {})
    assert len(make_table(elsewhere, tmp_path, "smoke").rows) == 2  # U is 50 there


def test_a_theta_of_the_paper_that_is_not_run_is_noted(tmp_path):
    definition = define(
        "thetas", datasets=("places205",), methods=("osh",), thetas=(-0.001, -0.0001, 0.0, 0.0001, 0.001, 0.1)
    )
    write(tmp_path, definition, {})
    notes = make_table(definition, tmp_path, "smoke").notes
    assert "The paper has one more theta for OSH, not run here: -0.0002, 101 updates, AUC 0.246." in notes
    assert sum("one more theta" in note for note in notes) == 1


def test_times(tmp_path):
    definition = define("times", methods=("okh", "mihash"))
    write(
        tmp_path,
        definition,
        lambda run: {
            "times": {"learning_s": 2.0 + 2 * run.trial, "deciding_s": 0.1 if run.theta is None else 0.6}
        },
    )
    table = make_table(definition, tmp_path, "smoke")
    assert table.columns[:4] == ("method", "learning, s", "trigger adds, s", "share")
    assert table.rows == (
        ("OKH", "3.000", "0.600", "20.0 %", "10.8", "12.8", "118.5 %"),
        (OURS, "3.000", "0.600", "20.0 %", "", "", ""),
    )
    assert not any("not to be used" in note for note in table.notes)
    times = {"learning_s": 2.0, "deciding_s": 0.5, "reservoir_s": 0.25, "update_s": 0.02}
    whole = tmp_path / "whole"
    write(whole, definition, lambda run: {"times": times, "updates": 201 if run.theta is None else 11})
    saved = make_table(definition, whole, "smoke")
    assert saved.columns[4:8] == ("reservoir, s", "a table update, s", "updates", "updates saved, s")
    assert saved.rows[0][4:8] == ("0.250", "0.020", "201 -> 11", "3.8")
    write(tmp_path, define("times", intervals=(0.1,)), {"times": {"learning_s": 9.0, "deciding_s": 0.1}})
    assert make_table(definition, tmp_path, "smoke") == table  # a pass of its own
    write(tmp_path, define("times", intervals=(0.1,)), {})  # the same seconds of learning: one pass
    assert make_table(definition, tmp_path, "smoke").notes[0].startswith("These times are not to be used.")


def test_reservoirs(tmp_path):
    definition = define("reservoirs", reservoirs=(0.4, 1.0), trials=1)
    write(
        tmp_path,
        definition,
        lambda run: {"updates": 20 if run.theta is None else 5, "area": 0.4 if run.share < 1 else 0.5},
    )
    table = make_table(definition, tmp_path, "smoke")
    assert table.columns[1:3] == ("reservoir", "of the stream")
    assert [row[1:4] + row[-1:] for row in table.rows] == [
        ("20", "2.0 %", "20 -> 5 (4.0x)", "-20.0 %"),
        ("50", "5.0 %", "20 -> 5 (4.0x)", "+0.0 %"),
    ]
    assert table.notes[0] == "One trial."


def test_curves(tmp_path):
    definition = define("curves", datasets=("cifar10", "labelme"), methods=("osh", "mihash"))
    write(tmp_path, definition, lambda run: {"updates": 201 if run.theta is None else 20, "final": 0.6})
    table = make_table(definition, tmp_path, "smoke")
    assert table.columns[:6] == ("data set", "method", "final mAP", "AUC", "updates", "reduction")
    assert [row[:2] for row in table.rows] == [("CIFAR-10", "OSH"), ("CIFAR-10", OURS), ("LabelMe", OURS)]
    ours = ("0.600 -> 0.600", "0.500 -> 0.500 (+0.0 %)", "201 -> 20", "10.1x")
    assert table.rows[0][2:] == (*ours, "0.480 -> 0.483", "0.463 -> 0.466 (+0.6 %)", "201 -> 36.7 (5.5x)")
    assert "LabelMe is 'labelme (digits)'" in table.notes[1]


def test_curves_of_several_lengths_without_the_fixed_rate(tmp_path):
    definition = define("curves", methods=("mihash",), bits=(32, 64), fixed=False)
    write(tmp_path, definition, lambda run: {"updates": run.n_bits}, "full")
    table = make_table(definition, tmp_path, "full")
    assert table.columns == ("bits", "method", "final mAP", "AUC", "updates")
    assert table.rows[1] == ("64", OURS, "0.500", "0.500", "64")
    assert "'cifar10_vgg16', substitute features" in table.notes[1]


def test_generated_data_are_labelled(tmp_path):
    definition = define("curves", methods=("mihash",))
    write(tmp_path, definition, {}, "small")
    assert "'cifar10-like', generated" in make_table(definition, tmp_path, "small").notes[1]


def test_a_definition_without_a_table_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="`draws` must be one of 'curves', 'methods', 'thetas'"):
        make_table(load_definition("figure3"), tmp_path, "smoke")


def test_the_area_can_be_taken_by_the_trapezoidal_rule(tmp_path):
    curve = {"precisions": [0.1, 0.4, 0.7], "examples": [100, 200, 500], "area": 0.4}
    write(tmp_path, define("curves"), curve)
    areas = [make_table(define("curves", auc=auc), tmp_path, "smoke").rows[0][2] for auc in ("mean", "trapezoid")]
    assert areas == ["0.400 -> 0.400 (+0.0 %)", "0.475 -> 0.475 (+0.0 %)"]


def test_settings_of_a_method_have_rows_of_their_own(tmp_path):
    definition = define("methods", methods=("osh", "okh"), parameters={"osh": [{}, {"loss": "hinge"}]})
    write(tmp_path, definition, {})
    table = make_table(definition, tmp_path, "smoke")
    assert [row[-1] != "" for row in table.rows] == [True, False, True]  # the paper has no hinge loss
    assert [row[0] for row in table.rows] == [
        "OSH",
        "OSH, hinge loss",
        "OKH",
    ]


def test_forced_ends_have_results_and_a_note_of_their_own(tmp_path):
    usual, forced = (define("curves", ends=ends, auc=auc) for ends, auc in ((False, "mean"), (True, "trapezoid")))
    assert not {job.path for job in usual.jobs()} & {job.path for job in forced.jobs()}
    assert next(forced.jobs()).described["ends"] is True
    assert "ends" not in next(usual.jobs()).described
    write(tmp_path, forced, {})
    notes = " ".join(make_table(forced, tmp_path, "smoke").notes)
    assert "after the first block and after the last example" in notes
    assert "trapezoidal" in notes


def test_the_papers_mihash_and_ours_have_names_of_their_own(tmp_path):
    papers = {"whiten": None, "warm_up": 0}
    settings = [papers, {}, papers | {"scale": 20.0}, {"whiten": 1.0}]
    definition = define("methods", methods=("mihash",), parameters={"mihash": settings})
    write(tmp_path, definition, {})
    assert [row[0] for row in make_table(definition, tmp_path, "smoke").rows] == [
        "MIHash",
        "MIHash, whitened (ours)",
        "MIHash, scale = 20.0",
        "MIHash, whiten = 1.0",
    ]


def test_notes_of_a_definition_stand_below_its_table_at_full_scale(tmp_path):
    definition = define("curves", notes=("Compare only within the table.",))
    for scale in ("smoke", "full"):
        write(tmp_path, definition, {}, scale)
        notes = make_table(definition, tmp_path, scale).notes
        assert (notes[-1] == "Compare only within the table.") == (scale == "full")
    with pytest.raises(InvalidInput, match="`notes` must be texts; got 3"):
        define("curves", notes=(3,))
