"""Routes of a migration to another embedding model."""

from collections.abc import Callable
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from ..errors import NotReady
from ..index.migration import Migration
from ..index.migration import Progress as ProgressRecord
from ..index.online_index import OnlineIndex
from .body_receiver import vectors_of
from .index_service import Service, service_of
from .item_routes import check_rows
from .openapi import body_of, route_responses
from .problems import invalid
from .record_schemas import record_schema
from .responses import respond
from .schemas import CutOverBody, MigrationBody, MigrationItemsBody

router = APIRouter(tags=["migration"])

Progress = record_schema(ProgressRecord, "MigrationProgress")


class Migrated(BaseModel):
    """What was stored. It is on disk."""

    added: int


class NoMigration(BaseModel):
    """No migration is under way."""

    state: Literal["none"] = Field(default="none")


@router.get(
    "/v1/migration",
    summary="The progress of the migration",
    responses=route_responses(Progress | NoMigration, 504),
)
async def progress(request: Request) -> Response:
    """Return the progress of the migration and what to do next; the state is "none" without a migration."""
    return respond(await service_of(request).write(_progress))


@router.post(
    "/v1/migration",
    status_code=201,
    summary="Begin a migration",
    responses=route_responses(Progress, 400, 408, 409, 413, 415, 422, 504, status=201),
    openapi_extra=body_of(MigrationBody, binary=False),
)
async def begin(request: Request) -> Response:
    """Begin to replace the vectors by those of another embedding model; the old ones answer meanwhile."""

    def work(index: OnlineIndex, body: MigrationBody) -> dict[str, Any]:
        index.migrate(n_bits=body.n_bits, **({} if body.metric is None else {"metric": body.metric}))
        return _progress(index)

    return await _run(request, MigrationBody, work, 201)


@router.put(
    "/v1/migration/items",
    summary="Store new vectors",
    responses=route_responses(Migrated, 400, 404, 408, 409, 413, 415, 422, 504),
    openapi_extra=body_of(MigrationItemsBody, binary=False),
)
async def put(request: Request) -> Response:
    """Store the new vectors of items by key; a second vector of a key replaces the first."""
    service = service_of(request)

    def work(index: OnlineIndex, body: MigrationItemsBody) -> dict[str, Any]:
        vectors = vectors_of(body.vectors)
        _check_size(service, len(vectors), vectors.shape[1])
        return {"added": _under_way(index).add(vectors, body.keys)}

    return await _run(request, MigrationItemsBody, work)


@router.post(
    "/v1/migration/cut-over",
    summary="Answer with the new vectors",
    responses=route_responses(Progress, 400, 408, 409, 413, 415, 422, 504),
    openapi_extra=body_of(CutOverBody, binary=False),
)
async def cut_over(request: Request) -> Response:
    """Answer with the new vectors from now on; 409 if items have none, unless `force`."""

    def work(index: OnlineIndex, body: CutOverBody) -> dict[str, Any]:
        _under_way(index).cut_over(body.force)
        return _progress(index)

    return await _run(request, CutOverBody, work)


@router.post(
    "/v1/migration/roll-back",
    summary="Answer with the old vectors again",
    responses=route_responses(Progress, 409, 504),
)
async def roll_back(request: Request) -> Response:
    """Answer with the old vectors again, as they were at the cut-over."""
    return await _take_step(request, Migration.roll_back)


@router.post(
    "/v1/migration/finish",
    summary="Remove the old vectors",
    responses=route_responses(NoMigration, 409, 504),
)
async def finish(request: Request) -> Response:
    """Remove the old vectors from the disk; after that the cut-over cannot be undone."""
    return await _take_step(request, Migration.finish)


@router.delete("/v1/migration", summary="Cancel the migration", responses=route_responses(NoMigration, 409, 504))
async def cancel(request: Request) -> Response:
    """Remove the new vectors; the old ones continue to answer."""
    return await _take_step(request, Migration.cancel)


def _progress(index: OnlineIndex) -> dict[str, Any]:
    found = index.migration
    return {"state": "none"} if found is None else dict(found.progress())


def _under_way(index: OnlineIndex) -> Migration:
    found = index.migration
    if found is None:
        raise NotReady("No migration is under way: begin one first.")
    return found


def _check_size(service: Service, n_rows: int, n_features: int) -> None:
    limits = service.limits
    check_rows(n_rows, limits)
    if n_features > limits.features:
        raise invalid(f"`vectors` must have at most {limits.features:,} features; got {n_features:,}.")


async def _take_step(request: Request, step: Callable[[Migration], None]) -> Response:
    """Run a step of the migration that needs no body, and return its progress."""

    def work(index: OnlineIndex) -> dict[str, Any]:
        step(_under_way(index))
        return _progress(index)

    return respond(await service_of(request).write(work))


async def _run(request: Request, model: Any, work: Any, status: int = 200) -> Response:
    service = service_of(request)
    async with service.bodies.receive(request, model.parse) as parsed:
        return respond(await service.write(lambda index: work(index, parsed)), status)
