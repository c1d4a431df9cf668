"""Addresses of what the index has learned and decided: stats, history, quality, versions, distances, events."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from ..errors import UnknownName
from ..index.online_index import OnlineIndex
from ..index.options import RELATIVE_THETA
from .openapi import errors, service_of
from .problems import Problem
from .responses import respond, to_json
from .schemas import Distances, History, HistoryQuery, Quality, Stats, Versions

router = APIRouter(tags=["learned"])

_CURRENT = "current"
_CHECK = ("number", "kind", "seen", "current", "snapshot", "accepted", "reason", "at")


@router.get("/v1/stats", summary="The state in numbers", responses={200: {"model": Stats}, **errors(504)})
async def stats(request: Request) -> Response:
    """Return the state of the index in numbers, with rates of the last ten seconds."""
    service = service_of(request)
    return respond(await service.look(service.stats))


@router.get(
    "/v1/history", summary="Decisions of the trigger", responses={200: {"model": History}, **errors(422, 504)}
)
async def history(request: Request, query: Annotated[HistoryQuery, Query()]) -> Response:
    """Return decisions, yes and no, with both qualities and the reason, and for a version what became of it."""

    def work(index: OnlineIndex) -> bytes:
        return to_json({"decisions": index.history(query.after, query.limit)})

    return respond(await service_of(request).look(work))


@router.get(
    "/v1/quality",
    summary="Decisions, as points of a chart",
    responses={200: {"model": Quality}, **errors(422, 504)},
)
async def quality(request: Request, query: Annotated[HistoryQuery, Query()]) -> Response:
    """Return what was compared at each check: both qualities, and theta, the bits that the gain had to exceed."""
    return respond(await service_of(request).look(lambda index: to_json({"points": _points(index, query)})))


def _points(index: OnlineIndex, query: HistoryQuery) -> list[dict[str, Any]]:
    theta = index.options.theta
    points = []
    for each in index.history(query.after, query.limit):
        relative = None if each["snapshot"] is None else RELATIVE_THETA * each["snapshot"]
        points.append({name: each[name] for name in _CHECK} | {"theta": relative if theta is None else theta})
    return points


@router.get("/v1/versions", summary="Versions that answered", responses={200: {"model": Versions}, **errors(504)})
async def versions(request: Request) -> Response:
    """Return the versions that have answered queries, with how many items and seconds each took."""
    return respond(await service_of(request).look(lambda index: to_json({"versions": index.versions()})))


@router.get(
    "/v1/versions/{version}/distances",
    summary="How far neighbours and others are apart",
    responses={200: {"model": Distances}, **errors(404, 409, 422, 504)},
)
async def distances(
    request: Request,
    version: Annotated[
        str,
        Path(
            pattern=r"^(current|0|[1-9][0-9]{0,14})$", description="A number, or 'current' for the newest mapping."
        ),
    ],
) -> Response:
    """Return the shares of neighbours and of others at each distance, on the sample of now, under a mapping."""
    number = None if version == _CURRENT else int(version)
    try:
        found = await service_of(request).measure(lambda index: index.distances(number))
    except UnknownName as error:
        raise Problem(404, "unknown_version", str(error)) from error
    return respond(found._asdict())


@router.get(
    "/v1/events",
    summary="What happens, as it happens",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events: stats, decision, version.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **errors(422, 504),
    },
)
async def events(
    request: Request,
    after: Annotated[int | None, Query(ge=-1, le=2**53, description="Begin after this decision.")] = None,
    last_event_id: Annotated[str | None, Header(description="The same, as a browser says it.")] = None,
) -> Response:
    """Send `stats` each second, each `decision` with its number as id, and each `version` that is published."""
    service = service_of(request)
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
        after = min(int(last_event_id[:16]), 2**53)
    stream = await service.feed.listen(after)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
