"""The index over HTTP, with a web page (docs/service.md); ``pip install 'mihash[service]'``.

Only this package imports a web framework, and only when one of the names below is used: `client` needs nothing but
the standard library.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ..extras import load_extra

if TYPE_CHECKING:
    from .app import create_app as create_app
    from .demo_stream import Replay as Replay
    from .index_service import Service as Service
    from .limits import Limits as Limits
    from .server import Running as Running
    from .server import read_token as read_token
    from .server import serve as serve
    from .worker_processes import serve_readers as serve_readers

_MODULES = {
    "Limits": "limits",
    "Replay": "demo_stream",
    "Running": "server",
    "Service": "index_service",
    "create_app": "app",
    "read_token": "server",
    "serve": "server",
    "serve_readers": "worker_processes",
}

__all__ = ["Limits", "Replay", "Running", "Service", "create_app", "read_token", "serve", "serve_readers"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    load_extra("service", "The service needs FastAPI and uvicorn", "fastapi", "uvicorn")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
