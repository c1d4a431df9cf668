"""Routes for monitoring: health, readiness, metrics."""

from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request, Response

from ..index.online_index import OnlineIndex
from .index_service import Service, service_of
from .openapi import route_responses
from .problems import Problem
from .responses import respond
from .schemas import Status

router = APIRouter(tags=["monitoring"])


@router.head(
    "/health", summary="Whether the process is up", response_class=Response, responses=route_responses(None)
)
@router.get("/health", summary="Whether the process is up", responses=route_responses(Status))
async def health() -> Response:
    """Answer 200 while the process runs."""
    return respond({"status": "ok"})


@router.head(
    "/ready", summary="Whether the index can be used", response_class=Response, responses=route_responses(None)
)
@router.get("/ready", summary="Whether the index can be used", responses=route_responses(Status))
async def ready(request: Request) -> Response:
    """Answer 503 while the index is opening, replaying after a crash, or closing."""
    service_of(request)
    return respond({"status": "ready"})


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses=route_responses("text/plain", 504),
)
async def metrics(request: Request) -> Response:
    """Return counters, gauges and the histogram of latencies; without those of the index while it is busy."""
    service: Service = request.app.state.service
    stats, rehash_s = None, 0.0
    if service.state == "ready":
        with suppress(Problem):
            stats, rehash_s = await service.read(lambda index: _index_metrics(service, index))
    text = service.metrics.text(stats, rehash_s, service.queue_lengths())
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _index_metrics(service: Service, index: OnlineIndex) -> tuple[dict[str, Any], float]:
    return service.stats(index), sum(each["seconds"] or 0.0 for each in index.versions())
