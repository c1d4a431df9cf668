"""A migration, the price of a rehash and hindsight, through the client."""

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput, NotReady
from mihash.service.client import Client
from over_http import D, rows


def test_a_migration(running):
    X, _ = rows(60)
    new = np.random.default_rng(3).standard_normal((60, D + 4)).astype(np.float32)
    with running() as service, Client(service.url) as client:
        client.add(X)
        assert client.migration.progress() == {"state": "none"}
        migration = client.migrate(n_bits=24)
        assert migration.add(new[:59], list(range(59))) == 59
        with pytest.raises(NotReady):
            migration.cut_over()
        assert migration.add(new[59:], 59) == 1
        assert migration.cut_over()["state"] == "cut over"
        assert client.search(new[5:6], k=1, rescore=50)[0].keys == [5]
        assert migration.roll_back()["state"] == "filling"
        assert client.search(X[5:6], k=1, rescore=50)[0].keys == [5]
        migration.cancel()
        with pytest.raises(NotReady):
            client.migration.finish()


def test_the_price_of_a_rehash_and_hindsight(running):
    X, y = rows(600)
    with running(trigger=mihash.PriceUpdate(20, 50)) as service, Client(service.url) as client:
        with pytest.raises(NotReady, match="No check has measured"):
            client.hindsight()
        client.add(X, labels=y)
        assert client.set_price(40.0) == 40.0
        assert client.history()[-1]["kind"] == "price"
        found = client.hindsight()
        assert (found["price"], found["cost"] >= found["best_cost"]) == (40.0, True)
        assert client.hindsight(price=5.0)["price"] == 5.0
        with pytest.raises(InvalidInput):
            client.set_price(-1.0)
