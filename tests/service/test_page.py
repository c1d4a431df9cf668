"""The dashboard, in a real browser against the service in its demo mode."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mihash.loop.arrivals import NEAR
from mihash.neighbors import FRACTION
from mihash.online import LEARNERS
from mihash.service.client import Client

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("fastapi", reason="the extra `service` is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PAGE = Path(__file__).parents[2] / "src/mihash/service/page"
PATIENCE_MS = 60_000  # a loaded machine may be slow to draw; what is awaited is the same

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is found")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("service") / "log"
    command = [sys.executable, "-m", "mihash", "serve", "--demo", "--port", str(port)]
    with log.open("w") as output:
        with _on_one_processor():
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent)
        try:
            url = f"http://127.0.0.1:{port}/"
            _wait_for(url + "v1/stats", process, log)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def _wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if json.load(answer)["items"]:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(log.read_text())


@contextmanager
def _on_one_processor() -> Iterator[None]:
    """Start processes on one processor: where the clocks of two differ, pages hang."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    with suppress(OSError):  # a sandbox may forbid it
        os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with ExitStack() as stack:
        with _on_one_processor():
            playwright = stack.enter_context(sync_api.sync_playwright())
            started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def visit(browser: Any, service: str) -> Iterator[Any]:
    """Open the page; at the end nothing was complained about and no other host was asked."""
    contexts, complaints, asked = [], [], []

    def opened(routes: dict[str, Any] | None = None, **options: Any) -> Any:
        contexts.append(browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | options)))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda each: asked.append(each.url))
        for pattern, handler in (routes or {}).items():
            page.route(pattern, handler)
        page.complaints = complaints
        page.goto(service)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints
    assert not [url for url in asked if not url.startswith((service, "data:"))]


def _live(page: Any) -> Any:
    sync_api.expect(page.locator("#status")).to_have_text("live", timeout=PATIENCE_MS)
    page.wait_for_selector("#quality-chart circle.yes")
    page.wait_for_selector("#distances-chart path.hill")
    return page


def _until(page: Any, expression: str, arg: Any = None) -> None:
    """Wait; the page's own policy forbids what Playwright's waiting does, to evaluate text inside the page."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not page.evaluate(f"arg => {expression}", arg):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(50)


def _changes(page: Any, expression: str) -> None:
    _until(page, f"{expression} !== arg", page.evaluate(expression))


def _text(page: Any, selector: str) -> str:
    return str(page.inner_text(selector))


def test_charts_fill_while_examples_stream_in(visit: Any) -> None:
    page = _live(visit())
    _changes(page, "document.querySelector('#tile-items .value').innerText")
    _changes(page, "document.querySelector('#quality-chart path.current').getAttribute('d')")
    page.wait_for_selector("#updates-chart rect.update")
    page.wait_for_selector("#tile-ingest path.stroke", state="attached")
    assert re.match(r"After [\d,]+ examples?: .* a rehash costs 20, so .* codes? ", _text(page, "#quality-lead"))
    assert re.match(r"\d+ updates? so far", _text(page, "#updates-lead"))
    assert "bits about who is a neighbour" in _text(page, "#distances-lead")
    assert "a rehash costs 20 queries" in _text(page, "#about")
    assert _text(page, "#neighbors") == "Neighbours share a label."
    assert "turned by 90 degrees" in _text(page, "#note")


def test_a_decision_tells_its_reason_to_the_pointer_and_to_the_keyboard(visit: Any) -> None:
    page = _live(visit())
    page.locator("#quality-chart").scroll_into_view_if_needed()
    box = page.locator("#quality-chart").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 100)
    assert re.search(r"(Rehash|Keep): .*(a rehash costs|mapping|examples)", _text(page, "#quality-chart .tip"))
    page.mouse.move(5, 5)
    assert not page.is_visible("#quality-chart .tip")
    page.focus("#quality-chart")
    page.keyboard.press("Home")
    assert "check 0" in _text(page, "#quality-chart .tip")
    assert "the first mapping" in page.text_content("#live")
    page.check("[value=last]", force=True)
    page.wait_for_selector("#quality-chart circle")


def test_the_slider_changes_the_histogram(visit: Any) -> None:
    page = _live(visit())
    _until(page, "document.querySelector('#version').max > 1")
    hill = "document.querySelector('#distances-chart path.neighbors').getAttribute('d')"
    now = page.evaluate(hill)
    page.focus("#version")
    page.keyboard.press("Home")
    _until(page, f"{hill} !== arg", now)
    assert _text(page, "#version-name").startswith("version 0")
    assert page.get_attribute("#version", "aria-valuetext").startswith("version 0")
    page.focus("#updates-chart")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert re.match(r"version [1-9]", _text(page, "#version-name"))


def test_a_search_by_key_and_by_vector(visit: Any, service: str) -> None:
    page = _live(visit())
    with urllib.request.urlopen(f"{service}v1/items/0", timeout=PATIENCE_MS / 1000) as answer:
        item = json.load(answer)
    page.fill("#k", "5")
    page.fill("#query", str(item["key"]))
    page.click("#search button")
    page.wait_for_selector("#results li:nth-child(5)")
    assert re.match(r"5 items of version \d+ in \d+ ms", _text(page, "#search-note"))
    assert page.locator("#results .bar").count() == 5
    page.fill("#query", json.dumps(item["vector"]))
    page.keyboard.press("Enter")
    _until(page, "document.querySelector('#results .link').innerText === '0'")
    page.locator("#results .link").nth(1).click()
    _until(page, "document.querySelector('#query').value !== ''")
    page.fill("#query", "[1, 2")
    page.keyboard.press("Enter")
    assert "neither" in _text(page, "#search-note")


def test_a_search_with_a_filter_and_rescoring(visit: Any) -> None:
    page = _live(visit())
    page.fill("#query", "0")
    page.fill("#k", "3")
    page.fill("#where", '{"digit": 7}')
    page.fill("#rescore", "50")
    page.click("#search button")
    page.wait_for_selector("#results li:nth-child(3)")
    assert re.fullmatch(r"(7 )*7", " ".join(page.locator("#results dd").all_inner_texts()[::2]))
    assert "distances are Euclidean" in _text(page, "#search-note")
    page.fill("#rescore", "0")
    page.fill("#where", '{"digit": 70}')
    page.click("#search button")
    sync_api.expect(page.locator("#search-note")).to_have_text("No item matches.", timeout=PATIENCE_MS)
    page.fill("#where", "digit = 7")
    page.click("#search button")
    assert "must be JSON" in _text(page, "#search-note")


def test_one_sentence_says_how_things_are(visit: Any) -> None:
    page = _live(visit())
    assert re.match(r"(Up to date; |Computing all codes again; )", _text(page, "#state"))
    told = page.evaluate("""async () => {
      const { summary } = await import("/page/summary.js");
      const base = {kind: "trigger", seen: 900, accepted: false, current: 0.502, snapshot: 0.5};
      const decision = (more) => ({...base, ...more});
      const stats = {version: 3, items: 5};
      return [
        {stats: null, decisions: []},
        {stats: {...stats, version: null}, decisions: []},
        {stats, decisions: []},
        {stats: {...stats, recall: 0.951}, decisions: [decision()]},
        {stats, decisions: [decision({kind: "alarm"}), decision({accepted: true})]},
        {stats, decisions: [decision({current: 0.4})]},
        {stats: {...stats, paused: true}, decisions: [decision()]},
        {stats: {...stats, rehashing: true}, decisions: [decision()]},
        {stats, decisions: [], migration: {state: "none"}, hindsight: {checks: 9, ratio: 1.2}},
        {stats, decisions: [], migration: {state: "filling", advice: "Add the others."}},
        {stats, decisions: [], hindsight: {checks: 10, ratio: 1.2}},
        {stats: {...stats, learner: "randomrotation"}, decisions: [decision({kind: "alarm"})]},
      ].map(summary);
    }""")
    assert told == [
        "Waiting for the index.",
        "The index is empty. Add rows to begin.",
        "Up to date; the first check comes with more rows.",
        "Up to date; the next rehash would bring 0.4 %. A search finds 95 % of the true nearest ten.",
        "Up to date; a rehash would bring nothing. The stream changed after 900 examples.",
        "Up to date; a rehash would bring nothing.",
        "Rebuilding is paused; version 3 answers.",
        "Computing all codes again; version 3 answers meanwhile.",
        "Up to date; the first check comes with more rows.",
        "Up to date; the first check comes with more rows. Migration: Add the others.",
        "Up to date; the first check comes with more rows. "
        "So far the rehashes cost 20 % more than the best schedule.",
        "Up to date; these codes are not learned, so there is nothing to rehash. "
        "The stream changed after 900 examples.",
    ]


def test_the_page_knows_which_learners_never_move(visit: Any) -> None:
    told = _live(visit()).evaluate(
        """async (names) => {
      const { isFixed } = await import("/page/summary.js");
      return names.filter((learner) => isFixed({learner}));
    }""",
        list(LEARNERS),
    )
    assert told == [name for name, learner in LEARNERS.items() if not learner.learned_names]


def test_the_page_says_who_is_a_neighbour(visit: Any) -> None:
    told = _live(visit()).evaluate(
        """async () => {
      const { neighborhoods } = await import("/page/summary.js");
      return [{trigger: {price: 20}}, {}].map((options) => neighborhoods({labels: false, options}));
    }"""
    )
    assert NEAR == 0.01
    assert FRACTION == 0.05
    assert told[0]["trigger"] == "neighbours of a new row are the nearest 1 % of the sample"
    pairs = "eighbours are the closest 5 % of pairs in the sample"
    assert told[0]["here"].startswith(f"N{pairs}; for the trigger, those of a new row are the nearest 1 %")
    assert told[1] == {"trigger": f"n{pairs}", "here": f"N{pairs}."}


def test_marks_of_the_quality_chart_are_measurements(visit: Any) -> None:
    page = _live(visit())
    marks = "[...document.querySelectorAll('#quality-chart g circle:is(.yes, .no)')]"
    heights = page.evaluate(f"{marks}.map((each) => +each.getAttribute('cy'))")
    base = page.evaluate("+document.querySelector('#quality-chart .base').getAttribute('y1')")
    assert heights
    assert max(heights) < base


@pytest.mark.parametrize(
    ("path", "scheme", "width"), [("", "light", 1280), ("", "dark", 390), ("docs", "light", 1280)]
)
def test_axe_finds_nothing(visit: Any, service: str, path: str, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    page = visit(viewport={"width": width, "height": 900}, color_scheme=scheme)
    if path:
        page.goto(service + path)
        page.wait_for_selector("article")
    else:
        _live(page)
        page.fill("#query", "0")
        page.keyboard.press("Enter")
        page.wait_for_selector("#results li")
    found = axe.Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []


def test_a_route_can_be_tried_in_the_reference(visit: Any, service: str) -> None:
    page = visit()
    page.goto(service + "docs")
    article = page.locator("article", has=page.locator("h3", has_text="POST/v1/search"))
    article.locator("summary", has_text="Try it").click()
    article.locator("textarea").fill('{"key": 0, "k": 2}')
    article.locator("form button").click()
    sync_api.expect(article.locator("form pre")).to_contain_text("200", timeout=PATIENCE_MS)
    assert '"results"' in article.locator("form pre").inner_text()


SHOWN = {
    2**63 - 1: "9223372036854775807",
    -(2**53) - 1: "-9007199254740993",
    "9007199254740993": "9007199254740993",
    "two\nlines": r'"two\nlines"',
    "": '""',
    "a/50%": "a/50%",
    "\u200b": r'"\u200b"',
}


def test_exact_and_odd_keys(visit: Any, service: str) -> None:
    """A key is shown, and looked up by a click, as it is: whole numbers of 64 bits and whatever a text can be."""
    page = _live(visit())
    page.fill("#k", "5")
    with Client(service) as client:
        for key, name in SHOWN.items():
            client.add([[-60.0, 60.0] * 32], keys=[key], metadata=[{"row": 2**60 + 1}])
            page.fill("#query", json.dumps([-60, 60] * 32))
            page.keyboard.press("Enter")
            link = page.locator("#results .link", has_text=re.compile(f"^{re.escape(name)}$"))
            link.wait_for()
            assert f"row {2**60 + 1}" in " ".join(_text(page, "#results").split())
            link.click()
            written = str(key) if isinstance(key, int) else json.dumps(key, ensure_ascii=False)
            _until(page, "document.querySelector('#query').value === arg", written)
            link.wait_for(state="detached")  # it is not its own neighbour
            assert page.locator("#results .link").count() == 5
            client.delete([key])


def test_what_is_stored_is_shown_as_text(visit: Any) -> None:
    pixel = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
    stored = [
        {"name": "<img src=x onerror=document.title='owned'>", "image": "javascript:document.title='owned'"},
        {"picture": "http://elsewhere.example/a.png", "n": {"<b>": 1}},
        {"picture": pixel},
    ]
    result = {"keys": ["<i>a</i>", 2, 3], "distances": [0, 1, 2], "metadata": stored}
    answer = json.dumps({"version": 1, "results": [result]})
    fake = {"**/v1/search": lambda route: route.fulfill(body=answer, content_type="application/json")}
    page = _live(visit(fake))
    page.fill("#query", '"<i>a</i>"')
    page.keyboard.press("Enter")
    page.wait_for_selector("#results li:nth-child(3)")
    assert page.title() == "mihash"
    assert page.locator("#results img").count() == 1
    assert page.get_attribute("#results img", "src") == pixel
    assert page.locator("#results i").count() == 3  # the bars only
    assert "<img src=x" in _text(page, "#results")


def test_everything_by_keyboard(visit: Any) -> None:
    page = _live(visit())
    focused = "(({id, value, textContent}) => id || value || textContent.trim())(document.activeElement)"
    reached = []
    for _ in range(25):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(focused))
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none" or reached[-1] == "all", reached  # the ring of a radio is on its label
        if reached[-1] == "version":
            break
    order = [
        "Skip to search",
        "theme",
        "query",
        "k",
        "where",
        "rescore",
        "all",
        "quality-chart",
        "updates-chart",
        "version",
    ]
    assert [each for each in reached if each in order] == order
    page.focus("#query")
    page.keyboard.type("0")
    page.keyboard.press("Enter")
    page.wait_for_selector("#results li")


@pytest.mark.parametrize("width", [360, 768])
def test_a_narrow_screen_does_not_scroll_sideways(visit: Any, width: int) -> None:
    page = _live(visit(viewport={"width": width, "height": 740}))
    page.fill("#query", "0")
    page.keyboard.press("Enter")
    page.wait_for_selector("#results li")
    page.click("#decisions summary")
    page.wait_for_selector("#decisions td")
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_light_and_dark(visit: Any) -> None:
    page = _live(visit(color_scheme="dark", reduced_motion="reduce"))
    shade = "getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)[0]"
    assert page.evaluate(shade) < 60
    assert page.get_attribute("#theme", "aria-pressed") == "true"
    assert _text(page, "#theme") == "Light"
    page.click("#theme")
    assert _text(page, "#theme") == "Dark"
    assert page.evaluate(shade) > 200
    page.reload()
    assert page.evaluate(shade) > 200
    assert page.evaluate("getComputedStyle(document.querySelector('main')).transitionDuration") == "0s"


def test_a_lost_connection_comes_back(visit: Any) -> None:
    broken = [True]

    def once(route: Any) -> None:
        if broken.pop() if broken else False:
            route.fulfill(body=": nothing\n\n", content_type="text/event-stream")
        else:
            route.continue_()

    page = visit({"**/v1/events": once})
    sync_api.expect(page.locator("#status")).to_have_text("connection lost, trying again", timeout=PATIENCE_MS)
    _live(page)


def test_a_token_is_asked_for_and_kept(visit: Any) -> None:
    def guarded(route: Any) -> None:
        if route.request.headers.get("authorization") == "Bearer open sesame":
            return route.continue_()
        error = {"error": {"code": "unauthorized", "message": "The token is missing or wrong."}}
        return route.fulfill(status=401, body=json.dumps(error), content_type="application/json")

    page = visit({"**/v1/**": guarded})
    page.fill("#token", "wrong")
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("#ask-note")).to_contain_text("refused")
    page.fill("#token", "open sesame")
    page.keyboard.press("Enter")
    _live(page)
    page.reload()
    _live(page)
    assert not page.is_visible("#ask")
    assert all("401" in complaint for complaint in page.complaints)
    page.complaints.clear()


def test_the_arithmetic_of_the_page(visit: Any) -> None:
    page = visit()
    inside = """async () => {
      const { parse, imageOf } = await import("/page/search.js");
      const { ledger } = await import("/page/updates.js");
      const { read, write } = await import("/page/exact.js");
      const { drift, sentence } = await import("/page/quality.js");
      const versions = [{seen: 0, items: 100, seconds: 0.1}, {seen: 500, items: 500, seconds: 0.5}];
      const sums = ledger({stats: {seen: 1000, items: 1000, interval: 100}, versions});
      const decisions = [
        {accepted: true, current: 0.5, snapshot: 0.4}, {accepted: false, current: 0.5, snapshot: 0.45}];
      return {
        parsed: ["7", " a b ", '"7"', "1 2.5,-3e2", "[[1, 2]]", "12-34"].map(parse),
        large: ["9223372036854775807", "9223372036854775808", "-9007199254740993"].map(parse).map(write),
        exact: write(read('[12345678901234567890, "1234567890123456789", 1.25, 9e99, "1\\\\\\\\", -3]')),
        images: [{a: "/x.png"}, {image: "https://a.example/b"}, {a: "https://a.example/b"}, {image: "ftp://a/b.png"},
          {image: "data:text/html,x"}, null].map((each) => imageOf(each) !== null),
        sentences: [0.5, 0.50001, 0.49999, 0.49].map((current) => sentence({stats: {theta: 0.1}, versions: [],
          decisions: [{kind: "trigger", seen: 100, accepted: false, snapshot: 0.5, current}]})),
        sums, drift: drift(decisions), undrifted: drift([{accepted: true, current: null}]),
      };
    }"""
    found = page.evaluate(inside)
    vector = [{"vectors": [[1, 2.5, -300]]}, {"vectors": [[1, 2]]}]
    assert found["parsed"] == [{"key": 7}, {"key": "a b"}, {"key": "7"}, *vector, {"key": "12-34"}]
    largest = ['{"key":9223372036854775807}', '{"key":"9223372036854775808"}', '{"key":-9007199254740993}']
    assert found["large"] == largest
    assert found["exact"] == r'[12345678901234567890,"1234567890123456789",1.25,9e+99,"1\\",-3]'
    assert found["images"] == [True, True, False, False, False, False]
    same = "tells as much about who is a neighbour as the snapshot"
    assert [same in each for each in found["sentences"]] == [True, True, True, False]
    sums = found["sums"]
    assert (sums["updates"], sums["rows"], sums["fixed"]) == (2, 600, 11)
    # 100 rows at once, then on average 300 and 750 at each of 5 checks; a row costs 1 ms
    assert sums["fixedRows"] == pytest.approx(100 + 5 * 300 + 5 * 750)
    assert sums["fixed_s"] == pytest.approx(5.35)
    assert found["drift"]["now"] - found["drift"]["then"] == pytest.approx(-0.05)
    assert found["undrifted"] is None


def test_shards_are_shown_where_there_are_some(visit: Any) -> None:
    page = _live(visit())
    assert page.locator("#shards").is_hidden()
    shard = {"shard": 0, "node": "disk-1", "state": "up", "version": 7, "items": 1200, "lag": 0, "restarts": 2}
    shards = [shard | {"bytes_on_disk": 5_000_000}, shard | {"shard": 1, "state": "lost", "lag": 3}]
    row = page.evaluate(
        """async shards => {
          (await import("./page/shards.js")).draw({ stats: { shards } });
          const panel = document.getElementById("shards");
          const cells = [...panel.querySelectorAll("tbody tr:first-child td")].map((cell) => cell.textContent);
          return [panel.hidden, document.getElementById("shards-lead").textContent, ...cells];
        }""",
        shards,
    )
    assert row == [False, "1 shard of 2 not up: 1.", "0", "disk-1", "up", "7", "1,200", "0", "2", "5.0 MB"]


class Proxy(BaseHTTPRequestHandler):
    """A proxy as nginx is by default: the service is told its own name as the Host."""

    upstream = ""

    def do_GET(self) -> None:
        """Pass a request on, and its answer back as it comes."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
        headers = {name: value for name, value in self.headers.items() if name != "Host"}
        connection = http.client.HTTPConnection(self.upstream, timeout=60)
        connection.request(self.command, self.path, body, headers | {"Connection": "close"})
        with connection.getresponse() as response:
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name not in ("transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # the browser has left
                while part := response.read1(65_536):
                    self.wfile.write(part)
        connection.close()

    do_POST = do_GET  # noqa: N815 -- the name that http.server calls

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def proxied(service: str) -> Iterator[str]:
    """The address of the service as people see it from outside."""
    handler = type("Passing", (Proxy,), {"upstream": service.removeprefix("http://").rstrip("/")})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_the_page_behind_a_proxy_that_rewrites_host(browser: Any, proxied: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(proxied)
    _live(page)
    page.fill("#query", "3")
    page.click("#search button")
    sync_api.expect(page.locator("#search-note")).to_contain_text("allow their origin", timeout=PATIENCE_MS)
    page.close()


def test_a_page_that_is_refused_says_why(browser: Any, service: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    body = json.dumps({"error": {"code": "forbidden", "message": "Not from here."}})
    page.route("**/v1/**", lambda route: route.fulfill(status=403, body=body, content_type="application/json"))
    page.goto(service)
    expected = "refused, trying again: Not from here."
    sync_api.expect(page.locator("#status")).to_have_text(expected, timeout=PATIENCE_MS)
    page.close()


def test_the_page_names_no_other_host() -> None:
    for file in PAGE.iterdir():
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", file.read_text()))
        assert addresses <= {"http://www.w3.org/2000/svg"}, file.name
