from functools import cache
from xml.etree import ElementTree

import numpy as np
import pytest

from mihash.errors import InvalidInput, NotReady, StoreError
from mihash.online import LEARNERS
from mihash.paper.definition import Definition, definition_names, load_definition
from mihash.paper.figures import COLORS, draw_figure
from mihash.paper.results import write_result
from mihash.paper.sources import data_name, find_source


def fake_run(job):
    """Return a result as the runner writes it, of a curve that rises; the trigger makes 4 of 20 updates."""
    rng = np.random.default_rng(job.trial)
    examples = np.sort(rng.choice(np.arange(1, 1000), 10, replace=False))
    precisions = 0.2 + 0.5 * examples / 1000 + 0.02 * rng.random(10)
    updates = 20 if job.theta is None else 4 if job.theta == 0 else 1 if job.theta > 0 else 15
    sizes = {"top": 1000 if job.dataset == "places205" else None, "reservoir_size": int(50 * job.share)}
    return {
        "protocol": sizes | {"rows": 1100, "interval": 100},
        "examples": examples.tolist(),
        "precisions": precisions.tolist(),
        "updated_at": list(range(0, 50 * updates, 50)),
        "updates": updates,
        "area": float(precisions.mean()) + 0.001 * updates,
        "final": float(precisions[-1]),
        "times": {"learning_s": 1.0, "deciding_s": 0.1},
    }


def fake_results(definition, folder, scale="smoke"):
    rng = np.random.default_rng(0)
    for job in definition.jobs(scale):
        if job.kind == "online":
            result = fake_run(job)
        elif job.kind == "correlation":
            result = {key: rng.random(50).tolist() for key in ("mi", "ap", "dcg", "ndcg")}
            result["pearson"] = {"ap": 0.9871, "dcg": 0.9, "ndcg": 0.8}
        else:
            part = {"p_pos": rng.random(33).tolist(), "p_neg": rng.random(33).tolist(), "map": 0.7654, "mi": 0.25}
            result = {"before": part, "after": part, "one_query": {"bad": part, "good": part}}
        origin = {"seed": 0, "scale": scale, "data": data_name(find_source(job.dataset), scale)}
        write_result(folder / scale / job.path, result | origin)


def drawn(definition, folder):
    """Draw, and return the texts of the SVG and its source."""
    files = draw_figure(definition, folder, "smoke")
    assert files == tuple(folder / "smoke" / "figures" / f"{definition.name}.{kind}" for kind in ("png", "svg"))
    assert files[0].read_bytes().startswith(b"\x89PNG")
    source = files[1].read_text(encoding="utf-8")
    tree = ElementTree.fromstring(source)
    return [text for text in tree.itertext() if text.strip()], source


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    """Return a function that draws a definition of the package once, and gives its folder, texts and source."""

    @cache
    def once(name):
        folder = tmp_path_factory.mktemp(name)
        fake_results(load_definition(name), folder)
        return folder, *drawn(load_definition(name), folder)

    return once


@pytest.mark.parametrize("name", ["figure3", "figure4", "figure5", "figure6", "table4", "reservoir", "learners"])
def test_every_figure_has_its_title_and_no_date(name, picture):
    _, texts, source = picture(name)
    assert load_definition(name).title in texts
    assert "dc:date" not in source


@pytest.mark.parametrize("name", ["figure5", "reservoir"])
def test_a_second_drawing_has_the_same_bytes(name, picture):
    folder, _, _ = picture(name)
    first = {path.name: path.read_bytes() for path in (folder / "smoke" / "figures").iterdir()}
    drawn(load_definition(name), folder)
    assert {path.name: path.read_bytes() for path in (folder / "smoke" / "figures").iterdir()} == first


def test_with_and_without_the_trigger(picture):
    _, texts, source = picture("figure4")
    assert texts.count("5.0\N{MULTIPLICATION SIGN} fewer") == 17  # of six on three data sets; OSH cannot have one
    assert (texts.count("MIHash"), texts.count("MIHash, whitened (ours)")) == (3, 3)
    assert texts.count("needs labels") == 1
    assert {"CIFAR-10", "Places205", "LabelMe", "(digits)", "mAP", "mAP@1000", "fixed rate"} <= set(texts)
    assert texts.count("examples of the stream") == 5
    assert COLORS["okh"] in source


def test_methods_compared(picture):
    _, texts, source = picture("figure5")
    for method in load_definition("figure5").methods:
        assert LEARNERS[method].__name__ in texts
        assert COLORS[method] in source
    assert "fixed rate" not in texts


def test_thetas_are_written_at_their_points(picture):
    _, texts, _ = picture("table4")
    at_most, at_least = "\N{LESS-THAN OR EQUAL TO} -1e-06", "\N{GREATER-THAN OR EQUAL TO} 0.0001"
    assert texts.count(at_most) == texts.count(at_least) == 4
    assert "AUC: mean mAP" in texts


@pytest.mark.parametrize(
    ("thetas", "expected"),
    [
        ((0.0,), {"0"}),
        ((1.0, 2.0), {"every \N{GREEK SMALL LETTER THETA}"}),
        ((-1.0, np.inf), {"-1", "\N{INFINITY}"}),
    ],
)
def test_few_thetas(thetas, expected, tmp_path):
    definition = Definition(
        "few",
        "T",
        "online",
        "thetas",
        ("cifar10",),
        ("okh", "osh", "mihash"),
        thetas=thetas,
        fixed=False,
        trials=1,
    )
    fake_results(definition, tmp_path)
    assert expected <= set(drawn(definition, tmp_path)[0])


def test_reservoirs_are_shares_of_the_stream(picture):
    _, texts, _ = picture("reservoir")
    assert {"5%", "10%", "table updates", "trigger", "fixed rate"} <= set(texts)


def test_learners_are_drawn_by_code_length(picture):
    _, texts, _ = picture("learners")
    assert {"8", "32", "bits", "mAP at the end", "mAP@1000 at the end", "MomentHash", "HMOH"} <= set(texts)
    assert "128" not in texts  # which is not run at this scale


def test_correlations_and_distributions_say_their_numbers(picture):
    assert picture("figure3")[1].count("AP: r = 0.987") == 3
    assert "all queries, after MIHash: I = 0.250 bits, mAP 0.77" in picture("figure6")[1]


def test_what_is_not_varied_is_drawn_at_its_first_value(tmp_path):
    several = Definition(
        "mine", "T", "online", "curves", ("cifar10",), ("okh",), thetas=(0.0, 0.5), intervals=(1.0, 2.0), trials=1
    )
    fake_results(Definition("mine", "T", "online", "curves", ("cifar10",), ("okh",), trials=1), tmp_path)
    assert "5.0\N{MULTIPLICATION SIGN} fewer" in drawn(several, tmp_path)[0]


@pytest.mark.parametrize("name", definition_names())
def test_missing_results_say_what_to_run(name, tmp_path):
    definition = load_definition(name)
    if definition.draws in ("times", "methods", "intervals", "missing", "lengths", "training", "end-to-end"):
        assert draw_figure(definition, tmp_path, "small") == ()
        return
    with pytest.raises(NotReady, match=f"Run `mihash reproduce {name} --scale small --results {tmp_path}`"):
        draw_figure(definition, tmp_path, "small")


def test_one_missing_result_is_enough(tmp_path):
    definition = load_definition("reservoir")
    fake_results(definition, tmp_path)
    next((tmp_path / "smoke").rglob("*.json")).unlink()
    with pytest.raises(NotReady, match="1 of the 144 results of reservoir are not in"):
        draw_figure(definition, tmp_path, "smoke")


def test_every_learner_has_a_colour_of_its_own():
    assert set(COLORS) == set(LEARNERS)
    assert len(set(COLORS.values())) == len(COLORS)


def test_bad_calls(tmp_path):
    with pytest.raises(InvalidInput, match="`thetas` of mine must not be empty"):
        draw_figure(Definition("mine", "T", "online", "curves", methods=("okh",), thetas=()), tmp_path, "smoke")
    definition = load_definition("figure6")
    fake_results(definition, tmp_path)
    (tmp_path / "smoke" / "figures").write_text("")
    with pytest.raises(StoreError, match="Cannot write"):
        draw_figure(definition, tmp_path, "smoke")
