"""Adding, getting and deleting over HTTP: every form of a body, and every way to refuse one."""

import io
import json
import re
from urllib.parse import quote

import numpy as np
import pytest

import mihash
from mihash import validation
from mihash.service.client import Client
from over_http import Caller, D, rows

NPY, FLOATS = "application/x-npy", "application/octet-stream"


def npy(array, version=(1, 0)):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


def npy_head(shape):
    """Return an npy file that says a shape and has nothing."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def test_a_life(running):
    X, y = rows(400)
    with running() as service:
        call = Caller(service).ready()
        answer = call.post("/v1/items", {"vectors": X[:300].tolist(), "labels": y[:300].tolist()})
        assert (answer.status, answer.body) == (201, {"added": 300, "first": 0, "last": 299, "items": 300})
        named = {"vectors": X[300:303].tolist(), "keys": ["a/b", "7", 1000], "metadata": [{"x": 1}, None, {}]}
        answer = call.post("/v1/items", named)
        assert answer.body == {"added": 3, "keys": ["a/b", "7", 1000], "items": 303}
        item = call.get("/v1/items/a%2Fb").body
        assert item == {"key": "a/b", "vector": X[300].tolist(), "label": None, "metadata": {"x": 1}}
        assert call.get("/v1/items/7").body["key"] == 7  # the number first
        assert call.get("/v1/items/%227%22").body["vector"] == X[301].tolist()
        assert call.get("/v1/items/12").body["label"] == y[12]
        assert call("DELETE", "/v1/items/7").body == {"deleted": 1, "items": 302}
        assert call.get("/v1/items/7").body["key"] == "7"  # the text, where no number is stored
        assert call.post("/v1/delete", {"keys": [1, 2, "a/b"]}).body == {"deleted": 3, "items": 299}
        assert call.post("/v1/delete", {"keys": []}).body == {"deleted": 0, "items": 299}
        answer = call.post("/v1/delete", {"keys": [3, 2]})
        assert (answer.status, answer.code) == (404, "unknown_key")
        assert call.get("/v1/items/3").status == 200  # nothing of it was removed
    with mihash.OnlineIndex.open(service.folder) as index:
        assert len(index) == 299
        assert np.array_equal(index.get(12).vector, X[12])


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<f2", "<i4", "|u1", "|b1"])
def test_npy_of_every_number(empty, dtype):
    X = (np.arange(3 * D).reshape(3, D) % 7).astype(dtype)
    for array, version in ((X, (1, 0)), (np.asfortranarray(X), (2, 0))):
        first = empty.get("/v1/stats").body["items"]
        answer = empty.post("/v1/items", npy(array, version), kind=NPY)
        assert answer.body == {"added": 3, "first": first, "last": first + 2, "items": first + 3}
        assert empty.get(f"/v1/items/{first + 1}").body["vector"] == X[1].astype(float).tolist()


def test_plain_floats(empty):
    X, _ = rows(5)
    answer = empty.post(f"/v1/items?features={D}", X.astype("<f4").tobytes(), kind=f"{FLOATS}; v=1")
    assert answer.body == {"added": 5, "first": 0, "last": 4, "items": 5}
    assert empty.get("/v1/items/4").body["vector"] == X[4].tolist()


def test_labels_of_several_classes(empty):
    X, y = rows(300)
    answer = empty.post("/v1/items", {"vectors": X.tolist(), "labels": np.eye(4, dtype=int)[y].tolist()})
    assert answer.status == 201
    assert empty.get("/v1/items/5").body["label"] == np.eye(4, dtype=int)[y[5]].tolist()


@pytest.mark.parametrize("labels", [[3, None, 4], ["cat", None, "dog"], [[0, 1], None, [1, 0]]])
def test_labels_that_are_missing(empty, labels):
    X, _ = rows(3)
    assert empty.post("/v1/items", {"vectors": X.tolist(), "labels": labels}).status == 201
    assert [empty.get(f"/v1/items/{i}").body["label"] for i in range(3)] == labels


GOOD = [[0.5] * D]


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "not JSON"),
        (b'{"vectors": [[1, 2', 400, "not JSON"),
        (b'\xff{"vectors": []}', 400, "not JSON"),
        (b"[" * 100_000, 400, "not JSON"),
        ([], 422, "an object"),
        ({}, 422, "`vectors`"),
        ({"vectors": []}, 422, "`vectors`"),
        ({"vectors": [[]]}, 422, "`vectors[0]`"),
        ({"vectors": [0.5]}, 422, "`vectors[0]`"),
        ({"vectors": [[0.5] * (D - 1)]}, 422, f"must have {D} features"),
        ({"vectors": [[0.5] * D, [0.5]]}, 422, "rows of one length"),
        ({"vectors": [[0.5] * (D - 1) + ["1"]]}, 422, "must be a number"),
        ({"vectors": [[0.5] * (D - 1) + [True]]}, 422, "must be a number"),
        ({"vectors": [[0.5] * (D - 1) + [None]]}, 422, "must be a number"),
        ({"vectors": [[0.5] * D, [0.5] * (D - 1) + [float("nan")]]}, 422, "row 1 has a NaN or an infinity"),
        ({"vectors": [[0.5] * (D - 1) + [float("inf")]]}, 422, "row 0 has a NaN or an infinity"),
        ({"vectors": [[0.5] * (D - 1) + [1e300]]}, 422, "row 0"),
        (b'{"vectors": [[' + b"0.5," * (D - 1) + b"1e999]]}", 422, "row 0"),
        ({"vectors": GOOD, "key": ["a"]}, 422, "`key`"),
        ({"vectors": GOOD, "keys": ["a", "b"]}, 422, "`keys` must be 1 key; got 2"),
        ({"vectors": GOOD, "keys": ["a\0"]}, 422, "keys[0]"),
        ({"vectors": GOOD, "keys": [1.5]}, 422, "keys[0]"),
        ({"vectors": GOOD, "keys": [2**63]}, 422, "keys[0]"),
        ({"vectors": GOOD, "keys": [True]}, 422, "keys[0]"),
        ({"vectors": GOOD, "labels": ["cat"]}, 422, "labels"),
        ({"vectors": GOOD, "labels": [1, 2]}, 422, "one label for each"),
        ({"vectors": GOOD, "labels": [[1, 0]]}, 422, "0/1 matrix"),
        ({"vectors": GOOD, "metadata": [1]}, 422, "metadata[0]"),
        ({"vectors": GOOD, "metadata": [{}, {}]}, 422, "`metadata` must be 1 dictionary"),
        ({"vectors": GOOD, "metadata": [{"x": "\0"}]}, 422, "NUL"),
    ],
)
def test_refused_json(served, body, status, told):
    before = served.get("/v1/stats").body["items"]
    answer = served.post("/v1/items", body)
    assert (answer.status, answer.code) == (status, "invalid_input"), answer
    assert told in answer.message
    assert len(answer.message) < 1000
    assert served.get("/v1/stats").body["items"] == before


def test_a_long_wrong_list_is_one_short_message(served):
    answer = served.post("/v1/items", {"vectors": [["x"] * D] * 20_000})
    assert (answer.status, answer.message) == (422, "`vectors[0][0]` must be a number.")


def test_a_key_that_is_there(served):
    for keys in ([3], ["new", 3]):
        answer = served.post("/v1/items", {"vectors": GOOD * len(keys), "keys": keys})
        assert (answer.status, answer.code) == (409, "duplicate_key")
        assert "key 3 is stored already; nothing was stored" in answer.message
    assert served.get("/v1/items/new").status == 404


@pytest.mark.parametrize(
    ("body", "kind", "query", "status", "code"),
    [
        (b"\x00" * 32, FLOATS, "", 422, "invalid_input"),
        (b"\x00" * 33, FLOATS, "?features=8", 400, "invalid_input"),
        (b"", FLOATS, "?features=8", 400, "invalid_input"),
        (b"\x00" * 28, FLOATS, "?features=7", 422, "invalid_input"),
        (b"\xff" * 32, FLOATS, "?features=8", 422, "invalid_input"),
        (b"\x00" * 32, FLOATS, "?features=0", 422, "invalid_input"),
        (b"\x00" * 32, FLOATS, "?features=x", 422, "invalid_input"),
        (b"\x00" * 32, FLOATS, "?features=8&more=1", 422, "invalid_input"),
        (b'{"vectors": [[1]]}', "application/json", "?features=8", 422, "invalid_input"),
        (b"", NPY, "", 400, "invalid_input"),
        (b"\x93NUMPY\x01\x00\xff\xff", NPY, "", 400, "invalid_input"),
        (b"\x93NUMPY\x09\x00", NPY, "", 400, "invalid_input"),
        (npy(np.zeros((2, D)))[:-1], NPY, "", 400, "invalid_input"),
        (npy(np.zeros((2, D))) + b"\0", NPY, "", 400, "invalid_input"),
        (npy(np.zeros((2, D))).replace(b"(2, 8)", b"(9**9,"), NPY, "", 400, "invalid_input"),
        (npy(np.zeros(D)), NPY, "", 422, "invalid_input"),
        (npy(np.array([["a"]])), NPY, "", 422, "invalid_input"),
        (npy(np.full((1, D), np.nan)), NPY, "", 422, "invalid_input"),
        (npy(np.zeros((1, D + 1))), NPY, "", 422, "invalid_input"),
        (npy(np.zeros((0, D))), NPY, "", 422, "invalid_input"),
        (npy_head("(0, 99999999999999999999)"), NPY, "", 422, "invalid_input"),
        (npy_head("(99999999999999999999, 0)"), NPY, "", 422, "invalid_input"),
        (npy_head("(99999999999999999999, 1)"), NPY, "", 400, "invalid_input"),
        (b"a=b", "application/x-www-form-urlencoded", "", 415, "unsupported_type"),
        (b"{}", None, "", 415, "unsupported_type"),
    ],
)
def test_refused_raw(served, body, kind, query, status, code):
    answer = served.post(f"/v1/items{query}", body, kind=kind)
    assert (answer.status, answer.code) == (status, code), answer


def test_an_npy_that_would_run_something_is_not_read(served):
    head = npy(np.zeros((1, D))).replace(b"'<f8'", b"'|O' ")
    answer = served.post("/v1/items", head, kind=NPY)
    assert (answer.status, answer.code) == (422, "invalid_input")


def test_an_npy_is_not_believed(served):
    """What a header announces is not allocated."""
    big = npy(np.zeros((1, D))).replace(b"(1, 8), }" + 13 * b" ", b"(99999999999, 8999), }")
    answer = served.post("/v1/items", big, kind=NPY)
    assert (answer.status, answer.code) == (400, "invalid_input")
    assert "says float64 of shape (99999999999, 8999)" in answer.message


ODD = ["a\nb", "\n", "", " ", "a/b", "/", "//", "..", "a%2Fb", "%", "50%", "?x=1", "#", "a&b", "é", "\u2028"]
QUOTED = ['"', '"7"', '""', "7"]


def test_every_key_has_an_address(empty):
    texts = ODD + QUOTED
    X, _ = rows(len(texts) + 3)
    keys = [*texts, 2**63 - 1, -(2**63), 7]
    assert empty.post("/v1/items", {"vectors": X.tolist(), "keys": keys}).status == 201
    with Client(empty.url) as client:
        for key, vector in zip(keys, X.tolist(), strict=True):
            assert client.get(key)["key"] == key
            assert client.get(key)["vector"] == vector
            assert client.search(key=key, k=1)[0].keys != [key]
    for key in texts:
        assert empty("DELETE", "/v1/items/" + quote(f'"{key}"', safe="")).body["deleted"] == 1
    assert empty.get("/v1/items/7").body["key"] == 7
    assert empty.get("/v1/stats").body["items"] == 3
    assert b'route="/v1/items/{key}"' in empty.get("/metrics").body


INTERNAL = re.compile(r"constrained|pydantic|<|0x|object at|Input should|Value error|validation")


def test_messages_show_no_internals(served):
    wrong = [{}, [], 3, {"vectors": 1}, {"vectors": [[None]]}, {"vectors": GOOD, "keys": [[]]}, {"keys": {}}]
    wrong += [{"vectors": GOOD, "labels": each} for each in ("a", ["a"], [[2]], [1, [1]], [{}])]
    wrong += [{"vectors": GOOD, "metadata": "a"}, {"vectors": GOOD, "x[y]": 1}, {"vectors": []}]
    answers = [
        served.post(address, body) for body in wrong for address in ("/v1/items", "/v1/search", "/v1/delete")
    ]
    answers += [served.post("/v1/search", {"vectors": GOOD, name: {}}) for name in ("k", "radius", "key", "where")]
    answers += [served.get(f"/v1/history?{query}") for query in ("after=x", "limit=0", "limit=1e9", "z=1")]
    answers += [served.get(f"/v1/versions/{version}/distances") for version in ("-1", "x", "01")]
    answers += [served.get("/v1/events?after=x")]
    heads = [
        b"\x93NUMPY\x01\x00\x06\x00{1:2}\n",
        npy(np.zeros((2, D))).replace(b"(2, 8)", b"(9**9,"),
        b"\x93NUMPY",
    ]
    answers += [served.post("/v1/items", head, kind=NPY) for head in heads]
    assert {answer.status for answer in answers} <= {200, 400, 404, 422}
    for answer in answers:
        assert answer.status == 200 or not INTERNAL.search(answer.message), answer.message


@pytest.mark.parametrize("key", ["nobody", "-5", "99999999999999999999", "%00", "%F0%9F", "a%2Fb%2Fc", ""])
def test_unknown_keys(served, key):
    for method in ("GET", "DELETE"):
        answer = served(method, f"/v1/items/{key}")
        assert (answer.status, answer.code) in ((404, "unknown_key"), (422, "invalid_input"))


@pytest.mark.parametrize("kind", ["application/json", "application/x-npy", "application/octet-stream"])
def test_the_index_alone_checks_the_values(empty, monkeypatch, kind):
    """The body is made a float32 matrix, and is not checked again on its way to the index."""
    X, _ = rows(3)
    index, seen = empty.running.service.index, []
    bodies = {"application/json": json.dumps({"vectors": X.tolist()}).encode(), "application/x-npy": npy(X)}
    monkeypatch.setattr(index, "add", lambda vectors, **_: seen.append(vectors) or [0, 1, 2])
    monkeypatch.setattr(validation, "finite", None)  # nothing may call it
    assert empty.post(f"/v1/items{'?features=8' * ('octet' in kind)}", bodies.get(kind, X.tobytes()), kind=kind)
    assert seen[0].dtype == np.float32
    assert np.array_equal(seen[0], X)


def test_labels_may_be_names(empty):
    X, _ = rows(6)
    names = ["cat", "dog", "cat", "dog", "emu", "cat"]
    assert empty.post("/v1/items", {"vectors": X.tolist(), "labels": names}).status == 201
    assert [empty.get(f"/v1/items/{key}").body["label"] for key in range(6)] == names
    answer = empty.post("/v1/items", {"vectors": X.tolist(), "labels": list(range(6))})
    assert (answer.status, answer.code) == (422, "invalid_input")
    assert "must be strings" in answer.message
