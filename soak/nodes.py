"""A small Ray cluster on this machine: a head and further nodes, each a process of its own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["joined", "local_nodes"]

STORE_BYTES = 80 << 20


@contextmanager
def local_nodes(n_nodes: int) -> Iterator[tuple[str, list[str]]]:
    """Start a cluster; give its address, and the names of the resources that its nodes can be told by."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": STORE_BYTES}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    try:
        names = [f"store-{chr(97 + number)}" for number in range(n_nodes)]
        for name in names:
            cluster.add_node(num_cpus=1, resources={name: 1}, object_store_memory=STORE_BYTES)
        yield cluster.address, names
    finally:
        cluster.shutdown()


@contextmanager
def joined(address: str) -> Iterator[Any]:
    """Join a cluster, and leave it at the end."""
    import ray

    ray.init(address, namespace="mihash", log_to_driver=False, logging_level="ERROR")
    try:
        yield ray
    finally:
        ray.shutdown()
