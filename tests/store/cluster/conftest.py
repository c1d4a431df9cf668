"""One small Ray cluster for all tests of this folder: a head and two further nodes, each a process of its own."""

import os

import pytest

STORE = 80 << 20


class Nodes:
    """A cluster whose nodes ``store-a`` and ``store-b`` can be taken away and brought back."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": STORE},
        )
        self.nodes = {}
        for name in ("store-a", "store-b"):
            self.bring(name, wait=False)
        self.cluster.wait_for_nodes()

    @property
    def address(self):
        return self.cluster.address

    def bring(self, name, wait=True):
        n_cpus = int(name == "store-a")  # a node may lend none
        about = {"num_cpus": n_cpus, "resources": {name: 1}, "object_store_memory": STORE}
        self.nodes[name] = self.cluster.add_node(wait, **about)

    def take(self, name):
        self.cluster.remove_node(self.nodes.pop(name))


@pytest.fixture(scope="session")
def nodes():
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_AUTH_MODE"] = "disabled"  # otherwise a token file in the home folder decides
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # some versions warn where it is not said
    try:
        made = Nodes()
        ray.init(address=made.address, namespace="mihash", log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # nothing of ours has run yet
        pytest.skip(f"Ray cannot start a cluster on this machine: {error!r:.300}")
    yield made
    ray.shutdown()
    made.cluster.shutdown()


@pytest.fixture(autouse=True)
def _needs_a_cluster(nodes):
    """Let tests that start one of their own know whether Ray can."""


@pytest.fixture
def places(nodes, tmp_path):  # noqa: ARG001 -- it must be there
    """Folders for the shards, one on each node."""
    return {name: str(tmp_path / name) for name in ("store-a", "store-b")}
