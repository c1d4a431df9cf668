"""A search has the same options, with the same defaults, in Python, over HTTP, in the client and as a command."""

import inspect
from dataclasses import MISSING, fields

import pytest
import typer

from mihash import OnlineIndex, cli
from mihash.service.client import Client
from mihash.service.schemas import SearchBody, SearchQuery
from mihash.store.question import Question

OPTIONS = ("k", "where", "rescore", "radius", "margins", "recall")
OF_PYTHON = {
    "queries",
    "single",
    "n_ranked",
    "most_tied",
    "compares_all",
    "condition",
    "factors",
    "method",
    "n_threads",
}  # what only a call in Python chooses, or makes


def command_options():
    return {each.name: each.default for each in typer.main.get_command(cli.app).commands["search"].params}


def defaults(function):
    return {name: each.default for name, each in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_interface_has_the_option(name):
    default = defaults(OnlineIndex.search)[name]
    assert SearchBody.model_fields[name].default == default
    assert SearchQuery.model_fields[name].default == default
    assert defaults(Client.search)[name] == default
    assert command_options()[name] == default
    for field in fields(Question):
        assert field.name != name or field.default in (default, MISSING)


def test_a_question_has_no_other_options():
    assert {field.name for field in fields(Question)} - OF_PYTHON <= set(OPTIONS)
