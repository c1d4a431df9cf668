"""What /openapi.json says is so: read by hand, and by schemathesis against the running service."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import mihash
from mihash.service import Limits, Running
from mihash.service.problems import CODES
from over_http import Caller

TOKEN = "schema-token"
N_EXAMPLES, SEED = 4, 1


def test_every_address_is_described(served):
    api = served.get("/openapi.json").body
    assert api["openapi"].startswith("3.1")
    wanted = {
        "/v1/items": {"post", "put", "patch", "get", "delete"},
        "/v1/get": {"post"},
        "/v1/contains": {"post"},
        "/v1/count": {"post"},
        "/v1/items/{key}": {"get", "delete"},
        "/v1/delete": {"post"},
        "/v1/search": {"post"},
        "/v1/stats": {"get"},
        "/v1/history": {"get"},
        "/v1/hindsight": {"get"},
        "/v1/price": {"post"},
        "/v1/quality": {"get"},
        "/v1/versions": {"get"},
        "/v1/versions/{version}/distances": {"get"},
        "/v1/events": {"get"},
        "/v1/rehash": {"post"},
        "/v1/pause": {"post"},
        "/v1/resume": {"post"},
        "/v1/migration": {"delete", "get", "post"},
        "/v1/migration/items": {"put"},
        "/v1/migration/cut-over": {"post"},
        "/v1/migration/roll-back": {"post"},
        "/v1/migration/finish": {"post"},
        "/health": {"get", "head"},
        "/ready": {"get", "head"},
        "/metrics": {"get"},
    }
    assert {path: set(operations) for path, operations in api["paths"].items()} == wanted
    schemas = set(api["components"]["schemas"])
    assert set(re.findall(r"#/components/schemas/(\w+)", json.dumps(api))) <= schemas
    for path, operations in api["paths"].items():
        for operation in operations.values():
            assert operation["summary"], path
            assert operation["description"], path
            assert "503" in operation["responses"], path
    bodies = api["paths"]["/v1/items"]["post"]["requestBody"]["content"]
    assert set(bodies) == {"application/json", "application/x-npy", "application/octet-stream"}


def test_pages_need_nothing_from_elsewhere(served):
    for address in ("/docs", "/docs/manual.js", "/docs/manual.css"):
        answer = served.get(address)
        assert answer.status == 200
        assert not re.search(rb"https?://", answer.body), address
    assert served.get("/").status == 200


def test_every_code_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text()
    assert all(f"`{code}`" in page for code in CODES)


def test_schemathesis(tmp_path):
    """No 5xx and nothing that the description does not say, to right and to wrong requests.

    Vectors of one number each, so that what is made up often has the width of the index. Whether a right request
    is accepted is not checked: the description cannot say that a width is that of the index. The stream of events
    never ends, and is tested elsewhere.
    """
    X = np.random.default_rng(0).standard_normal((300, 1))

    def opening():
        return mihash.OnlineIndex.create(
            tmp_path / "index",
            n_bits=16,
            reservoir_size=100,
            trigger=mihash.TriggerUpdate(0.02, 50, relative=True),
        )

    with Running(opening, token=TOKEN, limits=Limits(max_body=100_000)) as service:
        call = Caller(service, TOKEN).ready()
        call.post("/v1/items", {"vectors": X.tolist(), "metadata": [{"x": 1}] * 300})
        words = f"""run {service.url}/openapi.json --exclude-path /v1/events --phases coverage,fuzzing
            --exclude-checks positive_data_acceptance --max-examples {N_EXAMPLES} --seed {SEED} --no-color
            --generation-database none --request-timeout 30"""
        run = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", *words.split(), "-H", f"Authorization: Bearer {TOKEN}"],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            timeout=170,
        )
        assert run.returncode == 0, run.stdout
        assert re.search(r"\d{3,} generated", run.stdout), run.stdout
        errors = call.get("/metrics").body.decode()
        assert 'code="internal"' not in errors
        assert call.get("/v1/stats").body["items"] > 0
