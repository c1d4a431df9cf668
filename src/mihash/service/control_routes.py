"""Addresses that command the index: rehash, pause, resume."""

from collections.abc import Callable

from fastapi import APIRouter, Request, Response

from ..index.online_index import OnlineIndex
from .openapi import errors, service_of
from .responses import respond
from .schemas import State

router = APIRouter(tags=["control"])


@router.post(
    "/v1/rehash", summary="Rehash now", status_code=202, responses={202: {"model": State}, **errors(409, 504)}
)
async def rehash(request: Request) -> Response:
    """Accept the current mapping, whatever the trigger would say; its codes are made in the background."""
    return await _commanded(request, OnlineIndex.rehash, 202)


@router.post("/v1/pause", summary="Build no new versions", responses={200: {"model": State}, **errors(409, 504)})
async def pause(request: Request) -> Response:
    """Build no new version until `resume`; learning and decisions go on."""
    return await _commanded(request, OnlineIndex.pause)


@router.post("/v1/resume", summary="Build versions again", responses={200: {"model": State}, **errors(409, 504)})
async def resume(request: Request) -> Response:
    """Build the newest accepted version, and go on so."""
    return await _commanded(request, OnlineIndex.resume)


async def _commanded(request: Request, command: Callable[[OnlineIndex], None], status: int = 200) -> Response:
    def work(index: OnlineIndex) -> dict[str, object]:
        command(index)
        stats = index.stats()
        return {name: stats[name] for name in ("version", "rehashing", "paused")}

    return respond(await service_of(request).change(work), status)
