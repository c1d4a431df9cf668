"""Upsert, update, list, get of many and deletion by filter over HTTP, and the same with the client."""

import json
from urllib.parse import quote, urlencode

import numpy as np
import pytest

from mihash.errors import DuplicateKey, InvalidInput, UnknownName
from mihash.service.client import Client
from over_http import rows

X, _ = rows(60)


@pytest.fixture
def filled(empty):
    body = {
        "vectors": X[:30].tolist(),
        "keys": [f"k{i}" for i in range(30)],
        "metadata": [{"group": i % 3, "i": i} for i in range(30)],
    }
    assert empty.post("/v1/items", body).status == 201
    return empty


def listed(call, **query):
    answer = call.get(f"/v1/items?{urlencode(query)}")
    assert answer.status == 200, answer.body
    return [each["key"] for each in answer.body["items"]], answer.body["next"]


def test_an_unknown_field_is_answered_with_the_known_ones(filled):
    answer = filled.post("/v1/search", {"vektors": [[1.0] * 8], "vectors": [[1.0] * 8]})
    assert answer.message == (
        "`vektors` is not known here. Known: k, where, rescore, radius, margins, recall, metadata, vectors, key."
    )
    answer = filled.get("/v1/items?colour=red")
    assert (answer.status, answer.message) == (422, "`colour` is not known here. Known: after, limit, where.")


def test_a_stored_key_is_answered_with_what_replaces_it(filled):
    answer = filled.post("/v1/items", {"vectors": X[:1].tolist(), "keys": ["k1"]})
    assert answer.message.endswith(
        "is stored already; nothing was stored. To replace what is stored, use `upsert` (PUT /v1/items)."
    )


def test_put_stores_and_replaces(filled):
    answer = filled("PUT", "/v1/items", {"vectors": X[30:33].tolist(), "keys": ["k3", "new", "k4"]})
    assert (answer.status, answer.body) == (200, {"added": 1, "replaced": 2, "items": 31})
    assert filled.get("/v1/items/k3").body == {
        "key": "k3",
        "vector": X[30].tolist(),
        "label": None,
        "metadata": {"group": 0, "i": 3},
    }
    assert listed(filled, limit=1000)[0][-3:] == ["k3", "new", "k4"]
    for body, status, code in (
        ({"vectors": X[:2].tolist(), "keys": ["a", "a"]}, 409, "duplicate_key"),
        ({"vectors": X[:2].tolist(), "keys": ["a"]}, 422, "invalid_input"),
        ({"vectors": X[:2].tolist()}, 422, "invalid_input"),
        ({"vectors": X[:2, :3].tolist(), "keys": ["a", "b"]}, 422, "invalid_input"),
    ):
        answer = filled("PUT", "/v1/items", body)
        assert (answer.status, answer.code) == (status, code)
    assert filled.get("/v1/stats").body["items"] == 31


def test_patch_changes_vectors_metadata_or_both(filled):
    answer = filled("PATCH", "/v1/items", {"keys": ["k1", "k2"], "metadata": [{"group": 9}, None]})
    assert (answer.status, answer.body) == (200, {"updated": 2, "items": 30})
    item = filled.get("/v1/items/k1").body
    assert (item["vector"], item["metadata"]) == (X[1].tolist(), {"group": 9})
    assert filled("PATCH", "/v1/items", {"keys": ["k1"], "vectors": X[40:41].tolist()}).status == 200
    item = filled.get("/v1/items/k1").body
    assert (item["vector"], item["metadata"]) == (X[40].tolist(), {"group": 9})
    for body, status, code in (
        ({"keys": ["k1", "no"], "metadata": [{}, {}]}, 404, "unknown_key"),
        ({"keys": ["k1"]}, 422, "invalid_input"),
        ({"keys": ["k1"], "labels": [1]}, 422, "invalid_input"),
        ({"keys": ["k1"], "metadata": [{"long": "x" * 70_000}]}, 422, "invalid_input"),
    ):
        answer = filled("PATCH", "/v1/items", body)
        assert (answer.status, answer.code) == (status, code)


def test_lists_in_pages(filled):
    names = [f"k{i}" for i in range(30)]
    assert listed(filled) == (names, None)
    keys, place = listed(filled, limit=10)
    assert keys == names[:10]
    assert listed(filled, limit=10, after=place)[0] == names[10:20]
    assert listed(filled, limit=10, after="k9")[0] == names[10:20]
    assert listed(filled, limit=10, after='"k19"') == (names[20:], None)
    where = json.dumps({"group": 1})
    assert listed(filled, where=where, limit=4)[0] == names[1:12:3]
    assert filled.get("/v1/items?limit=1").body["items"] == [{"key": "k0", "metadata": {"group": 0, "i": 0}}]
    for query, status in (
        ("after=no", 404),
        ("after=next:7:3", 409),
        ("limit=0", 422),
        ("where=x", 422),
        ("where={%22$a%22:1}", 422),
    ):
        assert filled.get(f"/v1/items?{query}").status == status, query
    assert filled.get("/v1/items?colour=red").status == 422


def test_pages_go_on_whatever_became_of_their_last_item(filled):
    names = [f"k{i}" for i in range(30)]
    _, place = listed(filled, limit=10)
    filled("PUT", "/v1/items", {"vectors": X[30:31].tolist(), "keys": ["k9"]})
    for after in (place, "k9"):
        assert listed(filled, after=after) == ([*names[10:], "k9"], None)
    filled("DELETE", "/v1/items/k9")
    for after in (place, "k9"):
        assert listed(filled, after=after) == (names[10:], None)


def test_the_client_lists_all_while_items_change(filled, monkeypatch):
    monkeypatch.setattr("mihash.service.client._PAGE", 10)
    with Client(filled.url) as client:
        found = []
        for key, _ in client.items():
            found.append(key)
            if key == "k9":
                client.upsert(X[30], "k9")
            if key == "k19":
                client.delete("k19")
        assert found == [f"k{i}" for i in range(30)] + ["k9"]


def test_delete_by_filter(filled):
    answer = filled("DELETE", f"/v1/items?where={quote(json.dumps({'group': 1}))}")
    assert answer.body == {"deleted": 10, "items": 20}
    assert filled.post("/v1/delete", {"where": {"group": 2}}).body == {"deleted": 10, "items": 10}
    for body in ({}, {"keys": ["k0"], "where": {}}):
        assert filled.post("/v1/delete", body).status == 422
    assert filled("DELETE", "/v1/items").status == 422
    assert filled.get("/v1/stats").body["items"] == 10


def test_count(filled):
    assert filled.post("/v1/count", {}).body == {"count": 30}
    assert filled.post("/v1/count", {"where": {"group": 1}}).body == {"count": 10}
    assert filled.post("/v1/count", {"where": {"group": 5}}).body == {"count": 0}
    assert filled.post("/v1/count", {"where": {"grup": 1}}).body == {"count": 0, "unknown_fields": ["grup"]}
    for body in ({"where": "group"}, {"where": {"group": {"$near": 1}}}, {"filter": {}}):
        assert filled.post("/v1/count", body).status == 422


def test_a_search_names_fields_that_no_item_has(filled):
    answer = filled.post("/v1/search", {"vectors": X[:2].tolist(), "where": {"grup": 1}})
    assert answer.body["unknown_fields"] == ["grup"]
    answer = filled.post("/v1/search", {"vectors": X[:2].tolist(), "where": {"group": 5}})
    assert (answer.status, "unknown_fields" in answer.body) == (200, False)


def test_lists_and_deletions_name_fields_that_no_item_has(filled):
    where = quote(json.dumps({"grup": 1}))
    assert filled.get(f"/v1/items?where={where}").body == {"items": [], "next": None, "unknown_fields": ["grup"]}
    none = {"deleted": 0, "items": 30, "unknown_fields": ["grup"]}
    assert filled("DELETE", f"/v1/items?where={where}").body == none
    assert filled.post("/v1/delete", {"where": {"grup": 1}}).body == none
    assert filled.post("/v1/delete", {"where": {"group": 5}}).body == {"deleted": 0, "items": 30}


def test_the_client_has_the_verbs(filled):
    with Client(filled.url) as client:
        keys = client.upsert(X[30:33], ["k3", "new", "17"], metadata=[{"group": 7}] * 3)
        assert (keys, keys.replaced) == (["k3", "new", "17"], 1)
        assert client.update(["k5", "k6"], metadata=[{"group": 7}, None]) == 2
        assert client.update("k7", X[50:51]) == 1
        assert [item["key"] for item in client.get(["new", "k7", "17"])] == ["new", "k7", "17"]
        assert np.array_equal(client.get("k7")["vector"], X[50])
        assert client.keys(where={"group": 7}) == ["k5", "k3", "new", "17"]
        assert client.keys(after="17") == ["k7"]
        assert (client.count(), client.count({"group": 7}), client.count({"group": 8})) == (32, 4, 0)
        assert list(client.items(limit=1)) == [("k0", {"group": 0, "i": 0})]
        assert len(client.keys()) == 32
        assert client.delete(where={"group": 7}) == 4
        assert client.delete("k7") == 1
        with pytest.raises(UnknownName):
            client.get(["k0", "no"])
        with pytest.raises(DuplicateKey):
            client.upsert(X[:2], ["a", "a"])
        with pytest.raises(InvalidInput):
            client.delete()
