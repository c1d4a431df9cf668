"""`mihash serve`: what it refuses, before it listens."""

import pytest
import typer

from mihash import cli
from mihash.service import Limits


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "PATH of an index or --demo"),
        (["somewhere", "--demo"], "PATH of an index or --demo"),
        (["nowhere"], "There is no index in nowhere"),
        (["--demo", "--data", "nothing"], "no data set 'nothing'"),
        (["--demo", "--rate", "0"], "--rate must be"),
        (["--demo", "--host", "0.0.0.0"], "--token-file"),
        (["--demo", "--host", "::"], "--token-file"),
        (["--demo", "--token-file", "nowhere"], "token cannot be read"),
        (["--demo", "--max-body", "0"], "`--max-body`"),
        (["--demo", "--max-body", "nan"], "`--max-body`"),
        (["--demo", "--max-body", "inf"], "`--max-body`"),
        (["somewhere", "--rate", "5"], "--rate is an option of the demo"),
        (["somewhere", "--data", "digits"], "--data is an option of the demo"),
        (["somewhere", "--drift", "0"], "--drift is an option of the demo"),
        (["--demo", "--timeout", "0"], "--timeout must be"),
        (["--demo", "--waiting", "-1"], "--waiting must be"),
        (["--demo", "--searchers", "0"], "--searchers must be"),
        (["--demo", "--port", "70000"], "--port"),
        (["--demo", "--read-only"], "leave --read-only out"),
        (["somewhere", "--workers", "2"], "--workers needs --read-only"),
        (["somewhere", "--read-only", "--workers", "0"], "--workers"),
        (["--demo", "--max-metadata", "0"], "`--max-metadata`"),
        (["--demo", "--max-answer-metadata", "nan"], "`--max-answer-metadata`"),
        (["--demo", "--max-features", "0"], "--max-features must be"),
        (["--demo", "--max-conditions", "501"], "--max-conditions must be"),
        (["--demo", "--cors-origin", "photos.example"], "An origin must look like"),
        (["--demo", "--cors-origin", "*"], "only with a token"),
    ],
)
def test_refused(mihash, monkeypatch, words, told):
    monkeypatch.delenv("MIHASH_TOKEN", raising=False)
    run = mihash("serve", *words)
    assert run.code == 2
    assert told in run.err
    assert run.err.count("\n") == 1


def test_an_empty_token_is_none(mihash, monkeypatch):
    monkeypatch.setenv("MIHASH_TOKEN", "")
    run = mihash("serve", "--demo", "--host", "0.0.0.0")
    assert (run.code, "--token-file" in run.err) == (2, True)


def test_the_defaults_are_those_of_the_limits():
    options = {each.name: each.default for each in typer.main.get_command(cli.app).commands["serve"].params}
    limits = Limits()
    assert options["max_body"] * 2**20 == limits.max_body
    assert options["timeout"] == limits.timeout_s
    assert options["waiting"] == limits.waiting_writes
    assert options["max_metadata"] * 2**10 == limits.item_metadata
    assert options["max_answer_metadata"] * 2**20 == limits.answer_metadata
    assert options["max_features"] == limits.features
    assert options["max_conditions"] == limits.conditions
