"""Pages for people: the dashboard and the API reference; every file is served from here."""

from pathlib import Path

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import FileResponse
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)

_PAGE, _MANUAL = Path(__file__).parent / "page", Path(__file__).parent / "manual"
_REVALIDATE = {"Cache-Control": "no-cache"}


@router.head("/")
@router.get("/")
async def dashboard() -> Response:
    """Return the dashboard."""
    return FileResponse(_PAGE / "index.html", headers=_REVALIDATE)


@router.head("/docs")
@router.get("/docs")
async def manual() -> Response:
    """Return the page that shows /openapi.json."""
    return FileResponse(_MANUAL / "index.html", headers=_REVALIDATE)


def add_pages(app: FastAPI) -> None:
    """Add the pages and their files to an application."""
    app.include_router(router)
    app.mount("/page", _Files(directory=_PAGE))
    app.mount("/docs", _Files(directory=_MANUAL))


class _Files(StaticFiles):
    """Files that a browser revalidates each time, so that an upgrade of mihash shows at once."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        """Return a file."""
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        response.headers.update(_REVALIDATE)
        return response
