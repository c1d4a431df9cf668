"""A migration over HTTP."""

import numpy as np

from over_http import Caller, D, rows


def test_a_migration(running):
    X, _ = rows(120)
    new = np.random.default_rng(3).standard_normal((120, D + 4)).astype(np.float32)
    with running() as service:
        call = Caller(service).ready()
        assert call.get("/v1/migration").body == {"state": "none"}
        assert call.post("/v1/items", {"vectors": X.tolist()}).status == 201
        assert call("DELETE", "/v1/migration").code == "not_ready"
        answer = call.post("/v1/migration", {"n_bits": 24})
        assert (answer.status, answer.body["missing"]) == (201, 120)
        part = {"vectors": new[:100].tolist(), "keys": list(range(100))}
        assert call("PUT", "/v1/migration/items", part).body == {"added": 100}
        unknown = {"vectors": new[:1].tolist(), "keys": [999]}
        assert call("PUT", "/v1/migration/items", unknown).code == "unknown_key"
        assert call.post("/v1/migration/cut-over", {}).code == "not_ready"
        rest = {"vectors": new[100:].tolist(), "keys": list(range(100, 120))}
        assert call("PUT", "/v1/migration/items", rest).status == 200
        assert call.post("/v1/search", {"vectors": X[:1].tolist(), "k": 1, "rescore": 50}).body["results"][0][
            "keys"
        ] == [0]
        assert call.post("/v1/migration/cut-over", {}).body["state"] == "cut over"
        found = call.post("/v1/search", {"vectors": new[5:6].tolist(), "k": 1, "rescore": 50})
        assert found.body["results"][0]["keys"] == [5]
        assert call.post("/v1/migration/roll-back").body["state"] == "filling"
        assert call.post("/v1/search", {"vectors": X[:1].tolist(), "k": 1}).status == 200
        assert call.post("/v1/migration/cut-over", {}).status == 200
        assert call.post("/v1/migration/finish").body == {"state": "none"}
        assert call.get("/v1/stats").body["n_features"] == D + 4
