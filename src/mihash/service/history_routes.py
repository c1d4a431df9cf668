"""Routes of what the index learned and decided: stats, history, hindsight, versions, distances, events."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from ..errors import NotReady, UnknownName
from ..index.online_index import OnlineIndex
from ..trigger import FixedRate, Trigger, TriggerUpdate
from .index_service import service_of
from .openapi import route_responses
from .problems import Problem
from .responses import respond, to_json
from .schemas import (
    Distances,
    Hindsight,
    HindsightQuery,
    History,
    HistoryQuery,
    Quality,
    QualityPoint,
    Stats,
    Versions,
)

router = APIRouter(tags=["history"])


@router.get("/v1/stats", summary="The state of the index", responses=route_responses(Stats, 504))
async def stats(request: Request) -> Response:
    """Return the state of the index and of the service, with rates over the last ten seconds."""
    service = service_of(request)
    return respond(await service.read(service.stats))


@router.get("/v1/history", summary="Decisions of the trigger", responses=route_responses(History, 422, 504))
async def history(request: Request, query: Annotated[HistoryQuery, Query()]) -> Response:
    """Return decisions, accepted or not, with both qualities and the reason, and the state of each version."""

    def work(index: OnlineIndex) -> bytes:
        return to_json({"decisions": index.history(after=query.after, limit=query.limit)})

    return respond(await service_of(request).read(work))


@router.get(
    "/v1/hindsight",
    summary="The rehashes against the best schedule",
    responses=route_responses(Hindsight, 409, 422, 504),
)
async def hindsight(request: Request, query: Annotated[HindsightQuery, Query()]) -> Response:
    """Compare the rehashes so far with the best schedule; 409 before the first check."""

    def work(index: OnlineIndex) -> dict[str, Any]:
        found = index.hindsight(query.price)
        if found is None:
            raise NotReady("No check has measured anything yet.")
        return dict(found)

    return respond(await service_of(request).read(work, slow=True))


@router.get("/v1/quality", summary="Decisions as points of a chart", responses=route_responses(Quality, 422, 504))
async def quality(request: Request, query: Annotated[HistoryQuery, Query()]) -> Response:
    """Return what each check compared: both qualities, and theta, the gain in bits that a rehash needed."""

    def work(index: OnlineIndex) -> bytes:
        checks = index.history(after=query.after, limit=query.limit)
        return to_json({"points": [_point(each, index.options.trigger) for each in checks]})

    return respond(await service_of(request).read(work))


def _point(check: Any, trigger: Trigger) -> dict[str, Any]:
    theta: float | None = float("-inf") if isinstance(trigger, FixedRate) else None
    if isinstance(trigger, TriggerUpdate):
        theta = trigger.theta
        if trigger.relative:
            theta = None if check["snapshot"] is None else theta * check["snapshot"]
    return {name: theta if name == "theta" else check[name] for name in QualityPoint.model_fields}


@router.get("/v1/versions", summary="Published versions", responses=route_responses(Versions, 504))
async def versions(request: Request) -> Response:
    """Return the versions that have answered queries, with their items and build times."""
    return respond(await service_of(request).read(lambda index: to_json({"versions": index.versions()})))


@router.get(
    "/v1/versions/{version}/distances",
    summary="Distances to neighbours and to non-neighbours",
    responses=route_responses(Distances, 404, 409, 422, 504),
)
async def distances(
    request: Request,
    version: Annotated[
        str,
        Path(
            pattern=r"^(current|0|[1-9][0-9]{0,14})$",
            description="The number of a version, or 'current' for the newest mapping.",
        ),
    ],
) -> Response:
    """Return both distributions of distances on the current sample, under the mapping of a version."""
    number = None if version == "current" else int(version)
    try:
        found = await service_of(request).read(lambda index: index.distances(number), slow=True)
    except UnknownName as error:
        raise Problem(404, "unknown_version", str(error)) from error
    return respond(found._asdict())


_EVENTS = route_responses("text/event-stream", 422, 504)
_EVENTS[200]["description"] = "Server-sent events: stats, decision, version."


@router.get("/v1/events", summary="Server-sent events", response_class=StreamingResponse, responses=_EVENTS)
async def events(
    request: Request,
    after: Annotated[int | None, Query(ge=-1, le=2**53, description="Start after this decision.")] = None,
    last_event_id: Annotated[str | None, Header(description="The same, as browsers send it.")] = None,
) -> Response:
    """Send `stats` each second, each `decision` with its number as id, and each `version` that is published."""
    service = service_of(request)
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
        after = min(int(last_event_id[:16]), 2**53)
    stream = await service.feed.listen(after)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
