"""Who may ask: the token, this machine, this site."""

import pytest

from mihash.errors import InvalidInput, StoreError
from mihash.service import read_token
from mihash.service.cors import Cors
from mihash.service.server import bind
from over_http import Caller

TOKEN = "3f9a-secret"
GUARDED = ["/v1/stats", "/v1/history", "/v1/items/3", "/v1/events", "/metrics", "/v1", "/v1/nothing", "/nothing"]
OPEN = ["/", "/health", "/ready", "/docs", "/docs/manual.js", "/openapi.json", "/page/style.css"]


@pytest.fixture(scope="module")
def locked(running):
    with running(token=TOKEN) as service:
        yield Caller(service, TOKEN).ready()


@pytest.mark.parametrize("address", GUARDED)
@pytest.mark.parametrize(
    "shown",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer é"],
)
def test_without_the_token_nothing(locked, address, shown):
    headers = {} if shown is None else {"Authorization": shown.encode()}
    answer = Caller(locked.running)("GET", address, headers=headers)
    assert (answer.status, answer.code) == (401, "unauthorized")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert TOKEN not in answer.message


def test_with_the_token_everything(locked):
    assert locked.get("/v1/stats").status == 200
    assert locked.get("/metrics").status == 200
    assert locked.get("/nothing").code == "not_found"
    other = Caller(locked.running)("GET", "/v1/stats", headers={"Authorization": f"bearer  {TOKEN}"})
    assert other.status == 200
    # Who shows a token may come from anywhere: browsers do not send it by themselves.
    elsewhere = {"Host": "index.example", "Origin": "https://tools.example"}
    assert locked("GET", "/v1/stats", headers=elsewhere).status == 200


@pytest.mark.parametrize("address", OPEN)
def test_pages_are_open(locked, address):
    answer = Caller(locked.running).get(address)
    assert answer.status == 200
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Cache-Control"] in ("no-cache", "no-store")


@pytest.mark.parametrize("address", ["/v1/stats", "/metrics", "/health", "/nothing"])
def test_no_cache_keeps_an_answer(locked, address):
    for caller in (locked, Caller(locked.running)):  # also not that the token is missing
        assert caller.get(address).headers["Cache-Control"] == "no-store"


def test_no_way_around(locked):
    for address in ("/page/../v1/stats", "/page/%2e%2e/v1/stats", "/docs/../metrics", "//v1/stats", "/v1%2Fstats"):
        answer = Caller(locked.running).get(address)
        assert answer.status in (401, 404), address


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost:8000"}, 200),
        ({"Host": "127.0.0.1"}, 200),
        ({"Host": "[::1]:80"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "localhost:8000", "Origin": "http://localhost:8000"}, 200),
        ({"Host": "localhost:8000", "Origin": "http://localhost:9000"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Origin": "http://[::1"}, 403),
    ],
)
def test_other_sites_do_not_reach_an_open_service(served, headers, status):
    answer = served("GET", "/v1/stats", headers=headers)
    assert answer.status == status
    assert status == 200 or answer.code == "forbidden"


@pytest.mark.parametrize("address", OPEN)
def test_a_proxy_that_names_another_host_shows_the_page(served, address):
    """A browser sends the page's own scripts with an Origin, which is the proxy's."""
    assert served("GET", address, headers={"Origin": "https://photos.example"}).status == 200
    assert served("GET", address, headers={"Host": "evil.example"}).code == "forbidden"


def test_who_is_refused_is_told_what_to_do(served):
    answer = served("POST", "/v1/search", b"{}", headers={"Origin": "https://photos.example"})
    assert (answer.status, answer.code) == (403, "forbidden")
    assert "https://photos.example is not 127.0.0.1" in answer.message
    assert "allow their origin (docs/service.md" in answer.message


SITE, OTHER = "https://photos.example", "http://localhost:3000"


@pytest.fixture(scope="module", params=[None, TOKEN])
def shared(request, running, tmp_path_factory):
    """A service that pages of two other sites may use."""
    folder = tmp_path_factory.mktemp("shared") / "index"
    with running(folder=folder, token=request.param, cors_origins=[SITE, f"{OTHER}/"]) as service:
        yield Caller(service, request.param).ready()


def test_pages_of_sites_that_are_named(shared):
    paths = shared("GET", "/openapi.json").body["paths"].values()
    for origin in (SITE, OTHER):
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        answer = Caller(shared.running)("OPTIONS", "/v1/search", headers=asked)  # a browser shows no token here
        assert (answer.status, answer.body) == (204, b"")
        assert answer.headers["Access-Control-Allow-Origin"] == origin
        allowed = answer.headers["Access-Control-Allow-Methods"].split(", ")
        assert set(allowed) >= {method.upper() for path in paths for method in path}
        assert {"Authorization", "Content-Type"} <= set(answer.headers["Access-Control-Allow-Headers"].split(", "))
        assert int(answer.headers["Access-Control-Max-Age"]) > 0
        for address, status in (("/v1/stats", 200), ("/v1/items/nobody", 404), ("/health", 200)):
            answer = shared("GET", address, headers={"Origin": origin})
            assert answer.status == status
            assert answer.headers["Access-Control-Allow-Origin"] == origin
            assert answer.headers["Access-Control-Expose-Headers"] == "Retry-After"
            assert answer.headers["Vary"] == "Origin"


def test_pages_of_other_sites(shared):
    evil = {"Origin": "https://evil.example"}
    preflight = Caller(shared.running)(
        "OPTIONS", "/v1/search", headers=evil | {"Access-Control-Request-Method": "POST"}
    )
    assert preflight.status in (401, 403)
    for answer in (preflight, shared("GET", "/v1/stats", headers=evil), shared.get("/v1/stats")):
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert answer.headers["Vary"] == "Origin"


def test_pages_of_all_sites_only_with_a_token(running):
    with running(token=TOKEN, cors_origins=["*"]) as service:
        call = Caller(service, TOKEN).ready()
        answer = call("GET", "/v1/stats", headers={"Origin": "https://anybody.example"})
        assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, "https://anybody.example")
        assert Caller(service)("GET", "/v1/stats", headers={"Origin": "https://anybody.example"}).status == 401
    with pytest.raises(InvalidInput, match="only with a token"):
        running(cors_origins=["*"])


@pytest.mark.parametrize(
    "origin",
    ["", "photos.example", "ftp://photos.example", "https://photos.example/a", "http://[::1", "https://", 5],
)
def test_origins_that_are_none(origin):
    with pytest.raises(InvalidInput, match="An origin must look like"):
        Cors([origin])


def test_addresses_and_methods_that_are_not_there(served):
    assert (served.get("/nothing").status, served.get("/nothing").code) == (404, "not_found")
    assert served.get("/v1/delete").code == "method_not_allowed"
    answer = served("PUT", "/v1/stats")
    assert (answer.status, answer.code, answer.headers["Allow"]) == (405, "method_not_allowed", "GET")
    assert served.get("/page/nothing.js").code == "not_found"
    assert served.get("/page/../service.py").code == "not_found"


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_others_only_with_a_token(host):
    with pytest.raises(InvalidInput, match="`token`"):
        bind(host, 0, None)
    with bind(host, 0, TOKEN) as listening:
        assert listening.getsockname()[1] > 0


def test_addresses_that_cannot_be_listened_on():
    with bind("localhost", 0, None) as listening:
        listening.listen()
        port = listening.getsockname()[1]
        with pytest.raises(StoreError, match="in use"):
            bind("127.0.0.1", port, None)
    with pytest.raises(InvalidInput, match="not an address"):
        bind("no such host.invalid", 80, None)


def test_tokens_from_files(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN
    for wrong in ("", "\n", "two words", "é", "a\nb"):
        file.write_text(wrong)
        with pytest.raises(InvalidInput, match="token"):
            read_token(file)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_token(tmp_path / "nothing")
