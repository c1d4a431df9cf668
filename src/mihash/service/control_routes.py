"""Routes that control rebuilding: rehash, pause, resume, and what a rehash costs."""

from collections.abc import Callable

from fastapi import APIRouter, Request, Response

from ..index.online_index import OnlineIndex
from .index_service import service_of
from .openapi import body_of, route_responses
from .responses import respond
from .schemas import Price, PriceBody, State

router = APIRouter(tags=["control"])


@router.post(
    "/v1/rehash", summary="Rehash now", status_code=202, responses=route_responses(State, 409, 504, status=202)
)
async def rehash(request: Request) -> Response:
    """Accept the current mapping without asking the trigger; its codes are built in the background."""
    return await _run(request, OnlineIndex.rehash, 202)


@router.post("/v1/pause", summary="Pause rebuilding", responses=route_responses(State, 409, 504))
async def pause(request: Request) -> Response:
    """Build no new version until `resume`; learning and decisions continue."""
    return await _run(request, OnlineIndex.pause)


@router.post("/v1/resume", summary="Resume rebuilding", responses=route_responses(State, 409, 504))
async def resume(request: Request) -> Response:
    """Build the newest accepted version, and later ones when they are accepted."""
    return await _run(request, OnlineIndex.resume)


@router.post(
    "/v1/price",
    summary="Set the price of a rehash",
    responses=route_responses(Price, 400, 408, 409, 413, 415, 422, 504),
    openapi_extra=body_of(PriceBody, binary=False),
)
async def price(request: Request) -> Response:
    """Set the price of a rehash in queries, or measure it; 422 if the trigger has no price."""
    service = service_of(request)
    async with service.bodies.receive(request, PriceBody.parse) as wanted:
        return respond(await service.write(lambda index: {"price": index.set_price(wanted.price)}))


async def _run(request: Request, command: Callable[[OnlineIndex], None], status: int = 200) -> Response:
    def work(index: OnlineIndex) -> dict[str, object]:
        command(index)
        stats = index.stats()
        return {name: stats[name] for name in ("version", "rehashing", "paused")}

    return respond(await service_of(request).write(work), status)
