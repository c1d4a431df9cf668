"""Each command as a new user would run it."""

import json
import warnings

import numpy as np
import pytest
import typer

import mihash as library
from mihash import cli
from mihash.online import LEARNERS

COMMANDS = typer.main.get_command(cli.app).commands


def test_create_takes_every_option(mihash, tmp_path):
    words = (
        "--bits 24 --learner hmoh --metric cosine --theta 0.5 --interval 50 --reservoir-size 300 --dtype float16"
    )
    run = mihash(
        "create", tmp_path / "new", *words.split(), "--seed", 3, "--no-normalize", "--parameter", "lr=0.5"
    )
    assert (run.code, run.err) == (0, "")
    assert f"mihash add {tmp_path / 'new'} FILE" in run.out
    stats = json.loads(mihash("stats", tmp_path / "new", "--json").out)
    made = {
        "n_bits": 24,
        "learner": "hmoh",
        "metric": "cosine",
        "dtype": "float16",
        "theta": 0.5,
        "interval": 50,
    }
    assert {name: stats[name] for name in made} == made
    assert (stats["options"]["reservoir_size"], stats["options"]["parameters"]["lr"]) == (300, 0.5)
    shown = mihash("stats", tmp_path / "new").out
    assert "TriggerUpdate(theta=0.5," in shown
    assert "lr=0.5" in shown


def test_create_takes_parameters_of_the_default_learner(mihash, tmp_path):
    words = ("--parameter", "replay=5", "--parameter", "rank=32", "--parameter", "memory=null")
    run = mihash("create", tmp_path / "new", *words)
    assert (run.code, run.err) == (0, "")
    with library.open(tmp_path / "new") as index:
        found = index.options.parameters
        assert (found["replay"], found["rank"], found["memory"], index.options.n_bits) == (5, 32, None, 64)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["okh", "osh", "--try", "C=0.1"], "--try names parameters of one method"),
        (["okh", "hcoh", "okh"], "Name each method once; got okh, hcoh, okh"),
        ([], "Missing argument 'METHOD"),
    ],
)
def test_what_tune_refuses(mihash, words, message):
    run = mihash("tune", *words)
    assert (run.code, run.out) == (2, "")
    assert message in run.err


def test_inner_products(mihash, tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,0\n0,3\n-5,-5\n2,2\n")
    assert mihash("create", tmp_path / "new", "--bits", 8, "--metric", "ip").code == 0
    assert mihash("add", tmp_path / "new", tmp_path / "x.csv").code == 0
    found = json.loads(mihash("search", tmp_path / "new", "--key", 3, "-k", 2, "--json").out.splitlines()[0])
    assert found["measure"] == "ip"
    assert (found["keys"], found["distances"]) == ([1, 0], [-6.0, -2.0])


@pytest.mark.parametrize(("text", "keep"), [("50", 50), ("30d", "30d"), ("created=12h", {"created": "12h"})])
def test_create_with_a_window(mihash, tmp_path, text, keep):
    assert mihash("create", tmp_path / "new", "--keep", text).code == 0
    with library.open(tmp_path / "new", keep=keep) as index:
        assert len(index) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learner", "foo"], f"known: {', '.join(sorted(LEARNERS))}."),
        (["--metric", "foo"], "must be one of 'euclidean', 'cosine', 'ip'; got 'foo'"),
        (["--dtype", "foo"], "must be one of 'float32', 'float16'; got 'foo'"),
        (["--parameter", "foo=1"], "must be among memory"),
        (["--parameter", "replay=101"], "`replay` must be a whole number"),
        (["--parameter", "rank=many"], "`rank` must be a whole number"),
        (["--parameter", "foo"], "--parameter must be NAME=VALUE; got 'foo'"),
        (["--bits", "many"], "Invalid value for '--bits'"),
        (["--bits", "0"], "--bits must be a whole number"),
        (["--keep", "soon"], "--keep must be a number of items, a span such as '30d'"),
        (["--colour", "red"], "No such option"),
    ],
)
def test_what_create_refuses(mihash, tmp_path, words, message):
    run = mihash("create", tmp_path / "new", *words)
    assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)
    assert run.err.startswith("mihash: ")
    assert message in run.err
    assert not (tmp_path / "new").exists()


def test_every_learner_is_in_the_help():
    (option,) = [each for each in COMMANDS["create"].params if each.name == "learner"]
    *others, last = sorted(LEARNERS)
    assert option.help == f"{', '.join(others)} or {last}."


@pytest.mark.parametrize("words", [["add", "x.csv"], ["search", "--key", 1], ["get", 1], ["delete", 1], ["stats"]])
def test_no_index(mihash, tmp_path, words):
    command, *others = words
    run = mihash(command, tmp_path / "none", *others)
    assert (run.code, run.err.count("\n")) == (2, 1)
    assert f"make one with: mihash create {tmp_path / 'none'}" in run.err


def test_debug_stands_anywhere(mihash, tmp_path):
    for words in (["--debug", "stats", tmp_path / "none"], ["stats", tmp_path / "none", "--debug"]):
        run = mihash(*words)
        assert run.code == 2
        assert "Traceback" in run.err


def test_an_unexpected_error_is_one_line(mihash, index, monkeypatch):
    monkeypatch.setattr(library.OnlineIndex, "stats", lambda _: 1 / 0)
    run = mihash("stats", index)
    assert run.code == 1
    assert run.err == (
        "mihash: unexpected ZeroDivisionError, please report it with what --debug shows: division by zero\n"
    )


def test_a_warning_is_one_line(mihash, index, monkeypatch):
    def verify(_):
        warnings.warn("first\nsecond", RuntimeWarning, stacklevel=1)
        return {}

    monkeypatch.setattr(library.OnlineIndex, "verify", verify)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert mihash("verify", index).err == "mihash: warning: first second\n"


def test_search_from_a_file(mihash, index, tmp_path, data):
    np.save(tmp_path / "queries.npy", data[0][:3])
    run = mihash("search", index, tmp_path / "queries.npy", "-k", 2, "--rescore", 50, "--json")
    answers = [json.loads(line) for line in run.out.splitlines()]
    assert [answer["query"] for answer in answers] == [0, 1, 2]
    assert [answer["keys"][0] for answer in answers] == [0, 1, 2]
    assert all(answer["distances"][0] == pytest.approx(0, abs=1e-3) for answer in answers)
    table = mihash("search", index, tmp_path / "queries.npy", "-k", 2).out
    assert table.count("│") == 3 * 2 * 4


def test_search_names_queries_by_their_keys(mihash, index, tmp_path):
    (tmp_path / "q.jsonl").write_text('{"id": "a", "vector": [1, 2, 3, 4, 5, 6]}\n')
    run = mihash("search", index, tmp_path / "q.jsonl", "-k", 1, "--json")
    assert json.loads(run.out)["query"] == "a"
    assert "key from id (guessed)" in run.err


def test_search_with_one_vector(mihash, index, data):
    vector = ", ".join(map(str, data[0][7].tolist()))
    options = ["-k", 3, "--rescore", 50, "--json"]
    first = json.loads(mihash("search", index, "--vector", f"[{vector}]", *options).out)
    second = json.loads(mihash("search", index, "-", *options, sent=vector.encode()).out)
    assert first == second
    assert first["keys"][0] == 7


def test_search_by_key_leaves_the_item_out(mihash, index):
    options = ["-k", 4, "--rescore", 50, "--json", "--metadata", "--where", '{"colour": "red"}']
    answer = json.loads(mihash("search", index, "--key", 7, *options).out)
    assert answer["query"] == 7
    assert len(answer["keys"]) == 4
    assert 7 not in answer["keys"]
    assert {each["colour"] for each in answer["metadata"]} == {"red"}


def test_search_within_a_radius(mihash, index):
    answer = json.loads(mihash("search", index, "--key", 7, "--radius", 1, "--json").out)
    assert answer["distances"] == sorted(answer["distances"])
    assert set(answer["distances"]) <= {0, 1}
    assert (
        mihash("search", index, "--key", 7, "--radius", 0, "--where", '{"year": 1}').err == "Nothing was found.\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Search with one of these: a FILE of vectors, --vector NUMBERS, or --key KEY."),
        (["--key", "7", "--vector", "1"], "Search with one of these"),
        (["--key", "none"], "The key 'none' is not stored."),
        (["--vector", "1, 2"], "--vector has 2 numbers; vectors of this index have 6."),
        (["--vector", "1, a"], "could not convert string to float: 'a'"),
        (["--key", "7", "--where", "{colour: 1}"], "--where must be JSON"),
        (["--key", "7", "--where", "[1]"], "--where must be a JSON object"),
        (["--key", "7", "--where", '{"a": {"$b": 1}}'], "must have known operators"),
        (["--key", "7", "--column", "b"], "--column describes a file of queries: give a FILE, or leave it out."),
        (["--vector", "1", "--no-header"], "--no-header describes a file of queries"),
        (["--key", "7", "-k", "0"], "Invalid value for '-k'"),
        (["nothing.csv"], "nothing.csv does not exist"),
        (["-", "--column", "b"], "standard input has no column 'b' (--column)"),
        (["-", "--column", "c"], "The column 'c' of standard input must hold numbers"),
        (["-", "--format", "jsonl"], "several columns of lists (a, b); name the vector column with --column"),
    ],
)
def test_what_search_refuses(mihash, index, words, message):
    sent = b'{"a": [1], "b": [2]}' if "jsonl" in words else b"a,c\n1,red\n"
    run = mihash("search", index, *words, sent=sent)
    assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)
    assert message in run.err


def test_get(mihash, index, data):
    found = json.loads(mihash("get", index, 3, "--json").out)
    assert found["key"] == 3
    assert found["label"] is None
    assert found["metadata"] == {"colour": ("red", "green", "blue")[data[1][3]], "year": 1993}
    assert found["vector"] == pytest.approx(data[0][3].tolist())
    assert "6 numbers: " in mihash("get", index, 3, 4).out


def test_keys_that_look_like_numbers(mihash, index):
    with library.OnlineIndex.open(index) as opened:
        opened.add(np.ones((3, 6)), keys=["3", "7000", "007"])

    def key(text):
        return json.loads(mihash("get", index, "--json", "--", text).out)["key"]

    assert [key(text) for text in ("3", '"3"', "7000", "007")] == [3, "3", "7000", "007"]
    assert mihash("get", index, '"5"').err == "mihash: The key '5' is not stored.\n"
    assert mihash("get", index, "--", "-5").code == 2
    assert mihash("delete", index, "3", "7000").code == 0
    with library.OnlineIndex.open(index, read_only=True) as opened:
        assert opened.get("3").key == "3"
        with pytest.raises(library.errors.UnknownName):
            opened.get(3)


def test_delete_is_all_or_nothing(mihash, index):
    run = mihash("delete", index, 1, 2, "nothing")
    assert (run.code, run.err) == (2, "mihash: The key 'nothing' is not stored.\n")
    assert "Deleted 2 items; 1,498 are left." in mihash("delete", index, 1, 2).out


def test_maintenance(mihash, index, tmp_path):
    mihash("delete", index, *range(500))
    assert "1,000" in mihash("stats", index).out
    assert "is sound" in mihash("verify", index).out
    assert "Removed 500 deleted items:" in mihash("compact", index).out
    mihash("delete", index, 500)
    assert "Removed 1 deleted item:" in mihash("compact", index).out
    mihash("add", index, "-", "--format", "jsonl", sent=b"[1, 2, 3, 4, 5, 6]")
    assert "is an index of 1,000 items" in mihash("backup", index, tmp_path / "copy").out
    assert json.loads(mihash("stats", tmp_path / "copy", "--json").out)["items"] == 1000
    assert mihash("backup", index, tmp_path / "copy").code == 2


def test_hindsight(mihash, tmp_path):
    data = library.datasets.digits()
    with library.open(tmp_path / "digits", n_bits=16) as index:
        index.add(data.X[:800], data.y[:800])
        found = index.hindsight()
    assert found.rehashes > 1
    said = " ".join(mihash("history", tmp_path / "digits", "--hindsight").out.split())
    assert said.startswith(
        f"The index made {found.rehashes} rehashes ({20 * found.rehashes} queries) and missed {found.missed:.0f} "
        f"queries: cost {found.cost:.0f}. In hindsight the best schedule makes {found.best_rehashes} rehash"
    )


def test_history(mihash, index, tmp_path):
    lines = [
        json.loads(line) for line in mihash("history", index, "--all", "--last", 0, "--json").out.splitlines()
    ]
    assert [line["kind"] for line in lines[:3]] == ["start", "normalization", "trigger"]
    assert lines[0]["gain"] is None, "NaN is not JSON"
    assert len(mihash("history", index, "--all", "--last", 4, "--json").out.splitlines()) == 4
    assert "Invalid value for '--last'" in mihash("history", index, "--last", -5).err
    assert "4 of 17" in mihash("history", index, "--all", "--last", 4).out
    assert "normalization" in mihash("history", index).out
    mihash("create", tmp_path / "empty")
    assert mihash("history", tmp_path / "empty").err == "There are no decisions yet: add rows first.\n"


def test_damage_is_an_error_of_one_line(mihash, index):
    file = index / "index.db"
    raw = bytearray(file.read_bytes())
    middle = len(raw) // 2
    raw[middle : middle + 40_000] = bytes(40_000)
    file.write_bytes(raw)
    run = mihash("verify", index)
    assert (run.code, run.err.count("\n")) == (1, 1)


@pytest.mark.needs("faiss")
def test_export(mihash, index, tmp_path):
    assert "codes of 1,500 items" in mihash("export", index, tmp_path / "codes.parquet", "--metadata").out
    saved = library.export.read_parquet(tmp_path / "codes.parquet")
    assert saved.keys.tolist() == list(range(1500))
    assert "codes of 1,500 items" in mihash("export", index, tmp_path / "codes.faiss").out
    for words, message in (
        (["codes.zip"], "must be one of 'parquet', 'faiss'; got 'zip'"),
        (["codes.faiss", "--vectors"], "A FAISS index holds codes only"),
    ):
        run = mihash("export", index, tmp_path / words[0], *words[1:])
        assert run.code == 2
        assert message in run.err


@pytest.mark.needs("faiss")
def test_messages_speak_of_options(mihash, index, tmp_path):
    with library.OnlineIndex.open(index) as opened:
        run = mihash("delete", index, 1)
        assert (run.code, run.err) == (
            1,
            f"mihash: {index} is open for writing already, in this process or another. "
            "Try again when that has ended.\n",
        )
        opened.add(np.ones((1, 6)), keys=["a"])
    run = mihash("export", index, tmp_path / "codes.faiss")
    assert run.code == 2
    assert "use --ids rows" in run.err


def test_bench(mihash):
    words = ("bench", "--rows", 4096, "--features", 8, "--bits", 16, "--learner", "lsh")
    run = mihash(*words)
    assert run.code == 0, run.err
    assert "search, one by one" in run.out
    measures = [json.loads(line) for line in mihash(*words, "--json").out.splitlines()]
    assert [each["what"] for each in measures][-2:] == ["search, one by one", "search, rescoring 100"]
    assert all(each["seconds"] > 0 for each in measures)
    assert mihash("bench", "--rows", 10).code == 2


def test_drift_takes_a_seed_and_refuses_what_it_does_not_use(mihash, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    runs = []

    def run_tasks(tasks, *_):
        runs.append({(task.seed, task.jobs[0].dataset, task.results) for task in tasks})

    monkeypatch.setattr("mihash.paper.runner.run_tasks", run_tasks)
    monkeypatch.setattr("mihash.paper.drift_report.make_drift_report", lambda *_: (tmp_path / "drift.md",))
    words = ("reproduce", "drift", "--results", tmp_path)
    assert "12 results from 12 tasks; the report is" in mihash(*words).out
    assert mihash(*words, "--seed", 3, "--dataset", "digits").code == 0
    assert runs == [{(0, "digits", tmp_path)}, {(3, "digits", tmp_path / "seed-3")}]
    for more in (["--device", "cpu"], ["--validate"], ["--page", tmp_path / "page.md"]):
        assert "leave --device, --validate and --page out" in mihash(*words, *more).err
    assert "run it without other experiments" in mihash(*words, "table4").err
    assert "the data sets are digits; got 'cifar10'" in mihash(*words, "--dataset", "cifar10").err
    assert "has the scales smoke and full" in mihash(*words, "--scale", "small").err
