"""The index over HTTP, and a page for people (docs/service.md); ``pip install 'mihash[service]'``.

Thin: addresses are read here, and answered by `mihash.index`. The only room that imports a web framework.
"""

from ..errors import NotReady

try:
    import fastapi  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError:
    raise NotReady("The service needs FastAPI and uvicorn: pip install 'mihash[service]'.") from None

from .app import create_app
from .limits import Limits
from .replay import Replay
from .server import Running, read_token, serve
from .service import Service

__all__ = ["Limits", "Replay", "Running", "Service", "create_app", "read_token", "serve"]
