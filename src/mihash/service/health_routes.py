"""Addresses for who looks after the service: health, readiness, metrics."""

from typing import Any

from fastapi import APIRouter, Request, Response

from ..index.online_index import OnlineIndex
from .openapi import bodiless, errors, service_of
from .responses import respond
from .schemas import Status
from .service import Service

router = APIRouter(tags=["care"])

_HEAD = bodiless(504)


@router.head("/health", summary="Whether the process is up", response_class=Response, responses=_HEAD)
@router.get("/health", summary="Whether the process is up", responses={200: {"model": Status}, **errors()})
async def health() -> Response:
    """Answer."""
    return respond({"status": "ok"})


@router.head("/ready", summary="Whether the index can answer", response_class=Response, responses=_HEAD)
@router.get("/ready", summary="Whether the index can answer", responses={200: {"model": Status}, **errors(504)})
async def ready(request: Request) -> Response:
    """Answer 503 while the index is opened, learns again what a crash has lost, or is closed."""
    await service_of(request).look(lambda index: index.version)
    return respond({"status": "ready"})


@router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **errors(504)},
)
async def metrics(request: Request) -> Response:
    """Return counters, gauges and the histogram of latencies in Prometheus' text format."""
    service: Service = request.app.state.service
    stats, rehash_s = None, 0.0
    if service.state == "ready":
        stats, rehash_s = await service.look(lambda index: _measured(service, index))
    text = service.metrics.text(stats, rehash_s, service.waiting())
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _measured(service: Service, index: OnlineIndex) -> tuple[dict[str, Any], float]:
    return service.stats(index), sum(each["seconds"] or 0.0 for each in index.versions())
