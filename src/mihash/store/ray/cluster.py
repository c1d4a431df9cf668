"""The Ray cluster: joining and leaving it, its nodes, and actors that are pinned to them."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import InvalidInput, NotReady, StoreError, StoreLocked, Superseded
from ...extras import load_extra
from .log import Place
from .shard import SUPERSEDED, Shard

NAMESPACE = "mihash"
GROUPS = {"write": 1, "build": 1, "ask": 4, "maintenance": 1}
_SHARE = 0.001  # of a node's resource: what says where a shard must be, and takes nothing away
_TAKEN_S = 30.0
_SETTLED_S = 1.0  # after which calls of a process that has ended have arrived
_ANSWER_S = 1.0
_REACHED_S = 10.0
_JOINING = threading.Lock()
_USERS: list[None] = []  # one for each that needs the cluster, where it was joined here

Nodes = Sequence[str] | Mapping[str, str] | None


def ray_module() -> Any:
    """Return Ray, or say how to install it."""
    return load_extra("cluster", "A table on Ray needs Ray", "ray")


def connect(address: str | None) -> bool:
    """Join a Ray cluster, unless this process is in one; return whether to `leave` it at the end.

    Without an address it is the one that RAY_ADDRESS names, or that runs on this machine; ``"local"`` begins one.
    """
    if address is not None and not isinstance(address, str):
        raise InvalidInput(f"`address` must be the address of a Ray cluster as text; got {address!r:.80}.")
    with _JOINING:
        if ray_module().is_initialized():
            if _USERS:
                _USERS.append(None)
            return bool(_USERS)
        _join(address)
        _USERS[:] = [None]
    return True


def leave() -> None:
    """Leave the cluster when the last table that has joined it here is closed."""
    with _JOINING:
        if _USERS:
            _USERS.pop()
            if not _USERS:
                ray_module().shutdown()


def _join(address: str | None) -> None:
    ray = ray_module()
    _check_reachable(address or os.environ.get("RAY_ADDRESS", "auto"))
    options = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(
            address or "auto", namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR, **options
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise StoreError(
            f"There is no Ray cluster at {address or 'auto'}, or it has refused this process ({error}). Start one "
            f"with `ray start --head`. {_token_advice()}"
        ) from error


def _token_advice() -> str:
    """Return what to do about a token: Ray asks for one, and does not say so, once ~/.ray/auth_token exists."""
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "token":
        return (
            "RAY_AUTH_MODE is token: check that RAY_AUTH_TOKEN, the file that RAY_AUTH_TOKEN_PATH names, or "
            "~/.ray/auth_token holds the token of the cluster."
        )
    return (
        "If it runs with a token, set RAY_AUTH_MODE=token in this process too; `ray start` uses one by itself "
        "where ~/.ray/auth_token exists."
    )


def _check_reachable(address: str) -> None:
    """Raise if no process listens at a host and port: Ray would retry for many minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACHED_S).close()
    except (OSError, OverflowError) as error:
        raise StoreError(
            f"There is no Ray cluster at {address} ({error}). Start one with `ray start --head`."
        ) from error


def place_shards(folder: Path, n_shards: int, nodes: Nodes) -> list[Place]:
    """Return where shards go: to all nodes in turn, or to those that are named."""
    names = resources_of(nodes)
    paths = [str(path) for path in nodes.values()] if isinstance(nodes, Mapping) else [None] * len(names)
    places = []
    for number in range(n_shards):
        name, path = names[number % len(names)], paths[number % len(names)]
        own = folder.absolute() / "shards" / str(number) if path is None else Path(path) / f"shard-{number}"
        if not own.is_absolute():
            raise InvalidInput(f"The folder of a node must be absolute; got {path!r}.")
        places.append(Place(number, name, str(own)))
    return places


def resources_of(nodes: Nodes) -> list[str]:
    """Return the Ray resources that only these nodes have; of all nodes where none are named."""
    known = known_resources()
    if nodes is None:
        return sorted(name for name in known if name.startswith("node:"))
    if isinstance(nodes, str) or not isinstance(nodes, Sequence | Mapping) or not nodes:
        raise InvalidInput(f"`nodes` must be names of nodes, or a dictionary of names and folders; got {nodes!r}.")
    names = [f"node:{node}" if f"node:{node}" in known else str(node) for node in nodes]
    for node, name in zip(nodes, names, strict=True):
        if name not in known:
            there = ", ".join(sorted(each.removeprefix("node:") for each in known))
            raise InvalidInput(
                f"No node of the cluster has the address or the resource {node!r}; there are: {there}."
            )
    return names


def pinned(function: Callable[..., Any], resource: str, n_cpus: int = 0) -> Any:
    """Return a function as a Ray task that runs on one node."""
    return ray_module().remote(num_cpus=n_cpus, resources={resource: _SHARE})(function)


def lent_cpus(resource: str) -> int:
    """Return 1 where a node of a resource lends a CPU, else 0: a task that asked for one would wait for ever."""
    nodes = [node["Resources"] for node in ray_module().nodes() if node["Alive"]]
    return int(any(resource in lent and lent.get("CPU", 0) >= 1 for lent in nodes))


def known_resources() -> set[str]:
    """Return the names of nodes: their addresses as Ray's own resources, and the resources they were given."""
    usual = {"CPU", "GPU", "memory", "object_store_memory"}
    known = {name for node in ray_module().nodes() if node["Alive"] for name in node["Resources"]}
    return {name for name in known - usual if not name.startswith("node:__")}


def wait_free(places: Sequence[Place], table: str) -> None:
    """Wait until shards of a coordinator that has ended are gone; raise while one has them. They are left alone.

    Ray ends them a moment after that process. One that is alive calls each of them every second.
    """
    for place in places:
        patience = _Patience(place)
        while (about := _heard_of(place, table)) is not None:
            patience.wait(about)


class _Patience:
    """Waits for the shard of another coordinator to go; raises as soon as it is clear that this one is alive."""

    def __init__(self, place: Place) -> None:
        self._place, self._begin, self._settled = place, time.monotonic(), None

    def wait(self, about: dict[str, Any]) -> None:
        """Wait a moment, given what the shard says of itself."""
        waited_s = time.monotonic() - self._begin
        beats = about.get("beats")
        if self._settled is None and waited_s > _SETTLED_S:
            self._settled = beats
        if waited_s > _TAKEN_S or (self._settled is not None and beats not in (None, self._settled)):
            raise StoreLocked(
                f"Another process has this index open, and shard {self._place.number} follows it. Close the index "
                "there first; if this folder is a copy of that one's, delete it."
            )
        time.sleep(0.1)


def _heard_of(place: Place, table: str) -> dict[str, Any] | None:
    """Return what a running shard says of itself, nothing if it is silent; None if there is none."""
    ray = ray_module()
    try:
        shard = ray.get_actor(f"{table} {place.number}", NAMESPACE)
        told: dict[str, Any] = ray.get(
            shard.hello.options(concurrency_group="maintenance").remote(), timeout=_ANSWER_S
        )
    except ValueError:
        return None
    except ray.exceptions.RayError:
        return {}
    return told


def start_actor(place: Place, table: str, settings: dict[str, str], session: str, epoch: int | None = None) -> Any:
    """Start the process of a shard on its node; Ray starts it again whenever it dies, there and nowhere else.

    One that follows another coordinator is left alone: it is an error, `Superseded` where its epoch is later.
    """
    ray = ray_module()
    name = f"{table} {place.number}"
    options = {
        "name": name,
        "namespace": NAMESPACE,
        "num_cpus": 0,
        "resources": {place.node: _SHARE},
        "max_restarts": -1,
        "max_task_retries": -1,
    }
    patience = _Patience(place)
    while True:
        try:
            actor = ray.remote(concurrency_groups=GROUPS)(Shard).options(**options)
            return actor.remote(place.path, name, settings, session)
        except ValueError as error:
            if "already" not in str(error):
                raise StoreError(f"Shard {place.number} cannot be started: {error}") from error
        about = _heard_of(place, table) or {}
        if epoch is not None and about.get("epoch", 0) > epoch:
            raise Superseded(SUPERSEDED)
        patience.wait(about)


def find_actor(place: Place, table: str) -> Any:
    """Return the running shard of a table that another process has opened."""
    try:
        return ray_module().get_actor(f"{table} {place.number}", NAMESPACE)
    except ValueError as error:
        raise NotReady(
            "No process has this index open, so its shards are not running: open it without read_only."
        ) from error
