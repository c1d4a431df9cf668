"""The index over HTTP, and a page for people (docs/service.md); ``pip install 'mihash[service]'``.

The only room that imports a web framework, and only where one of the names below is asked for: the `client` needs
the standard library alone.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ..errors import NotReady

if TYPE_CHECKING:
    from .app import create_app as create_app
    from .demo_stream import Replay as Replay
    from .limits import Limits as Limits
    from .server import Running as Running
    from .server import read_token as read_token
    from .server import serve as serve
    from .service import Service as Service

_HOME_OF = {
    "Limits": "limits",
    "Replay": "demo_stream",
    "Running": "server",
    "Service": "service",
    "create_app": "app",
    "read_token": "server",
    "serve": "server",
}

__all__ = ["Limits", "Replay", "Running", "Service", "create_app", "read_token", "serve"]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        importlib.import_module("fastapi")
        importlib.import_module("uvicorn")
    except ImportError:
        raise NotReady("The service needs FastAPI and uvicorn: pip install 'mihash[service]'.") from None
    return getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
