"""Services to ask: a shared one with items, an empty one, and one with options of a test's own."""

import pytest

import mihash
from mihash.service import Running
from over_http import OPTIONS, Caller, rows


@pytest.fixture(scope="session")
def running(tmp_path_factory):
    """Make a service of a new index, ready, to be used in a `with`."""

    def make(folder=None, token=None, limits=None, cors_origins=(), **options):
        place = folder or tmp_path_factory.mktemp("served") / "index"

        def opening():
            if (place / "index.db").exists():
                return mihash.OnlineIndex.open(place)
            return mihash.OnlineIndex.create(place, **(OPTIONS | options))

        made = Running(opening, limits=limits, token=token, cors_origins=cors_origins)
        made.folder = place
        return made

    return make


@pytest.fixture(scope="module")
def served(running):
    """A service with 600 items, keys 0 to 599, labels and metadata; tests that share it add and remove none."""
    X, y = rows(600)
    with running() as service:
        call = Caller(service).ready()
        metadata = [{"row": i, "even": i % 2 == 0} if i % 3 else None for i in range(600)]
        body = {"vectors": X.tolist(), "labels": y.tolist(), "metadata": metadata}
        assert call.post("/v1/items", body).status == 201
        service.service.index.catch_up()
        service.service.index.wait()
        yield call


@pytest.fixture
def empty(running):
    """A service of an index without items."""
    with running() as service:
        yield Caller(service).ready()
