"""`mihash serve`: what it refuses, before it listens."""

import pytest


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "PATH of an index, or --demo"),
        (["somewhere", "--demo"], "PATH of an index, or --demo"),
        (["nowhere"], "There is no index in nowhere"),
        (["--demo", "--data", "nothing"], "no data set 'nothing'"),
        (["--demo", "--rate", "0"], "`rate`"),
        (["--demo", "--host", "0.0.0.0"], "--token-file"),
        (["--demo", "--host", "::"], "--token-file"),
        (["--demo", "--token-file", "nowhere"], "token cannot be read"),
        (["--demo", "--max-body", "0"], "`--max-body`"),
        (["--demo", "--max-body", "nan"], "`--max-body`"),
        (["--demo", "--max-body", "inf"], "`--max-body`"),
        (["somewhere", "--rate", "5"], "--rate is of the demo"),
        (["somewhere", "--data", "digits"], "--data is of the demo"),
        (["somewhere", "--drift", "0"], "--drift is of the demo"),
        (["--demo", "--timeout", "0"], "`timeout_s`"),
        (["--demo", "--waiting", "-1"], "`waiting_writes`"),
        (["--demo", "--searchers", "0"], "`searchers`"),
        (["--demo", "--port", "70000"], "--port"),
        (["--demo", "--max-metadata", "0"], "`--max-metadata`"),
        (["--demo", "--max-answer-metadata", "nan"], "`--max-answer-metadata`"),
        (["--demo", "--max-features", "0"], "`features`"),
        (["--demo", "--max-conditions", "501"], "`conditions`"),
        (["--demo", "--cors-origin", "photos.example"], "An origin must be such as"),
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
