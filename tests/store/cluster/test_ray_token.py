"""What the error says where a cluster may want a token."""

import pytest

from mihash.errors import StoreError
from mihash.store.ray import cluster


@pytest.mark.parametrize(("mode", "advice"), [(None, "set RAY_AUTH_MODE=token"), ("token", "RAY_AUTH_TOKEN_PATH")])
def test_a_refused_connection_speaks_of_the_token(monkeypatch, mode, advice):
    class Refusing:
        def init(self, *_, **__):
            raise ConnectionError("Failed to connect to Ray cluster")

    monkeypatch.setattr(cluster, "ray_module", Refusing)
    if mode is None:
        monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    else:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    with pytest.raises(StoreError, match=f"or it has refused this process .*{advice}"):
        cluster._join("auto")
