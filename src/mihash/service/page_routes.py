"""Addresses for people: the dashboard, and the description of the interface; no file comes from elsewhere."""

from pathlib import Path

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import FileResponse
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)

_PAGE, _MANUAL = Path(__file__).parent / "page", Path(__file__).parent / "manual"
_FRESH = {"Cache-Control": "no-cache"}


@router.head("/")
@router.get("/")
async def dashboard() -> Response:
    """Return the dashboard."""
    return FileResponse(_PAGE / "index.html", headers=_FRESH)


@router.head("/docs")
@router.get("/docs")
async def described() -> Response:
    """Return the page that shows /openapi.json."""
    return FileResponse(_MANUAL / "index.html", headers=_FRESH)


def add_pages(app: FastAPI) -> None:
    """Serve the files that the pages are made of."""
    app.include_router(router)
    app.mount("/page", _Files(directory=_PAGE))
    app.mount("/docs", _Files(directory=_MANUAL))


class _Files(StaticFiles):
    """Files that a browser asks about again each time, so that a newer mihash is seen."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        """Return a file."""
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        response.headers.update(_FRESH)
        return response
