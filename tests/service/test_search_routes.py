"""Searching over HTTP gives what the index gives."""

import io
import json
from urllib.parse import urlencode

import numpy as np
import pytest

from mihash.service import Limits
from mihash.service.responses import numbers_to_json, to_json
from over_http import Caller, D, rows

QUERIES, _ = rows(5, seed=7)


def expected(served, queries, *arguments, **options):
    hits = served.running.service.index.search(queries, *arguments, **options)
    results = [
        {"keys": keys.tolist(), "distances": distances.tolist()}
        for keys, distances in zip(hits.keys, hits.distances, strict=True)
    ]
    return {"version": hits.version, "measure": hits.measure, "results": results}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"k": 3},
        {"k": 3, "rescore": 50},
        {"k": 4, "where": {"even": True}},
        {"k": 10_000},
        {"radius": 2},
        {"radius": 2, "where": {"row": {"$gte": 300}}},
        {"k": 3, "rescore": 0},
        {"k": 3, "rescore": 0, "margins": False},
        {"k": 3, "recall": 0.5},
    ],
)
def test_every_form_gives_what_the_index_gives(served, options):
    wanted = expected(served, QUERIES, **options)
    assert served.post("/v1/search", {"vectors": QUERIES.tolist()} | options).body == wanted
    given = {name: json.dumps(value) if name in ("where", "margins") else value for name, value in options.items()}
    address = f"/v1/search?{urlencode({'features': D} | given)}"
    assert served.post(address, QUERIES.astype("<f4").tobytes(), kind="application/octet-stream").body == wanted
    file = io.BytesIO()
    np.save(file, QUERIES)
    answer = served.post(f"/v1/search?{urlencode(given)}", file.getvalue(), kind="application/x-npy")
    assert answer.body == wanted


def test_metadata(served):
    body = {"vectors": QUERIES.tolist(), "k": 7}
    bare = served.post("/v1/search", body).body
    full = served.post("/v1/search", body | {"metadata": True}).body
    for one, other in zip(bare["results"], full["results"], strict=True):
        assert other.pop("metadata") == [
            {"row": key, "even": key % 2 == 0} if key % 3 else None for key in one["keys"]
        ]
        assert one == other
    raw = served.post(
        f"/v1/search?features={D}&k=7&metadata=true", QUERIES.tobytes(), kind="application/octet-stream"
    )
    assert all(len(each["metadata"]) == 7 for each in raw.body["results"])


@pytest.mark.parametrize("options", [{}, {"rescore": 5}, {"rescore": 200}, {"radius": 3}, {"where": {"row": 1}}])
def test_neighbours_of_an_item_are_others(served, options):
    found = served.post("/v1/search", {"key": 9, "k": 5} | options).body["results"][0]
    vector = served.running.service.index.get(9).vector[None]
    if "rescore" in options:
        options = options | {"rescore": options["rescore"] + 1}
    whole = expected(served, vector, **({"k": 6} | options))["results"][0]
    pairs = [pair for pair in zip(whole["keys"], whole["distances"], strict=True) if pair[0] != 9]
    assert list(zip(found["keys"], found["distances"], strict=True)) == pairs[: None if "radius" in options else 5]
    assert 9 not in found["keys"]


def test_before_anything_is_there(empty):
    answer = empty.post("/v1/search", {"vectors": QUERIES.tolist()})
    nothing = {"version": None, "measure": "euclidean", "results": [{"keys": [], "distances": []}] * 5}
    assert answer.body == nothing
    within = empty.post("/v1/search", {"vectors": QUERIES.tolist(), "radius": 3})
    assert within.body == nothing | {"measure": "hamming"}


VECTORS = {"vectors": QUERIES.tolist()}


@pytest.mark.parametrize(
    ("body", "status", "code", "told"),
    [
        ({}, 422, "invalid_input", "exactly one of `vectors` and `key`"),
        (VECTORS | {"key": 1}, 422, "invalid_input", "exactly one of `vectors` and `key`"),
        ({"vectors": None, "key": None}, 422, "invalid_input", "exactly one of `vectors` and `key`"),
        ({"key": "nobody"}, 404, "unknown_key", "'nobody' is not stored"),
        ({"key": "9"}, 404, "unknown_key", "not stored"),  # a text is not a number
        ({"vectors": [[1.0]]}, 422, "invalid_input", "features"),
        ({"vectors": [[float("nan")] * D]}, 422, "invalid_input", "NaN"),
        (VECTORS | {"k": 0}, 422, "invalid_input", "`k`"),
        (VECTORS | {"k": 10_001}, 422, "invalid_input", "`k`"),
        (VECTORS | {"k": 1.5}, 422, "invalid_input", "`k`"),
        (VECTORS | {"k": "3"}, 422, "invalid_input", "`k`"),
        (VECTORS | {"rescore": -1}, 422, "invalid_input", "`rescore`"),
        (VECTORS | {"radius": -1}, 422, "invalid_input", "`radius`"),
        (VECTORS | {"where": {"x": {"$near": 1}}}, 422, "invalid_input", "$near"),
        (VECTORS | {"where": [1]}, 422, "invalid_input", "`where`"),
        (VECTORS | {"metadata": "yes"}, 422, "invalid_input", "`metadata`"),
        (VECTORS | {"K": 3}, 422, "invalid_input", "`K`"),
        (b"nothing", 400, "invalid_input", "not JSON"),
    ],
)
def test_refused(served, body, status, code, told):
    answer = served.post("/v1/search", body)
    assert (answer.status, answer.code) == (status, code), answer
    assert told in answer.message


@pytest.mark.parametrize("query", ["k=3", "features=8", "metadata=true", "unknown=1"])
def test_options_of_json_stand_in_the_body(served, query):
    assert served.post(f"/v1/search?{query}", VECTORS).status == 422


@pytest.mark.parametrize("query", ["where={", "where=[]", "k=x", "k=0", "metadata=1", "radius=-1", "K=3"])
def test_refused_options_of_a_raw_body(served, query):
    answer = served.post(f"/v1/search?features=8&{query}", QUERIES.tobytes(), kind="application/octet-stream")
    assert (answer.status, answer.code) == (422, "invalid_input"), answer


def test_an_answer_is_not_larger_than_the_limit(running):
    X, _ = rows(300)
    with running(limits=Limits(results=100)) as service:
        call = Caller(service).ready()
        call.post("/v1/items", {"vectors": X.tolist()})
        assert call.post("/v1/search", {"vectors": X[:10].tolist(), "k": 10}).status == 200
        answer = call.post("/v1/search", {"vectors": X[:10].tolist(), "k": 11})
        assert (answer.status, answer.code) == (422, "invalid_input")
        assert "at most 100" in answer.message
        assert call.post("/v1/search", {"vectors": X[:10].tolist(), "rescore": 11}).status == 422
        answer = call.post("/v1/search", {"vectors": X[:1].tolist(), "radius": 16})
        assert (answer.status, "smaller radius" in answer.message) == (422, True)


def test_inner_products(running):
    X, _ = rows(300)
    with running(metric="ip") as service:
        call = Caller(service).ready()
        assert call.post("/v1/items", {"vectors": X.tolist()}).status == 201
        answer = call.post("/v1/search", {"vectors": X[:2].tolist(), "k": 3, "rescore": 300}).body
    assert answer["measure"] == "ip"
    products = X[:2].astype(float) @ X.astype(float).T
    for own, result in zip(products, answer["results"], strict=True):
        assert result["keys"] == np.argsort(-own, kind="stable")[:3].tolist()
        np.testing.assert_allclose(-np.array(result["distances"]), np.sort(own)[::-1][:3], rtol=1e-5)


@pytest.mark.parametrize(
    "value", [{"a": ["NaN", float("nan"), -float("inf")]}, ["\u00e9", "Infinity", 2**70, None]]
)
def test_results_are_the_json_of_every_response(value):
    assert json.loads(numbers_to_json(value)) == json.loads(to_json(value))
