"""The address that asks the index."""

import json
from itertools import islice
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from numpy.typing import NDArray

from ..index.online_index import OnlineIndex
from ..store.filters import compile_filter
from ..store.keys import Key
from .item_routes import checked, vectors_of
from .limits import Limits
from .openapi import errors, raw_body, service_of
from .problems import Problem
from .request_bodies import JSON, media_type
from .responses import respond, to_json
from .schemas import Found, SearchBody, SearchOptions, SearchQuery
from .service import Service

router = APIRouter(tags=["search"])

_COMPARED = 1 << 25  # pairs of a query and an item that a radius search may hold at a time


@router.post(
    "/v1/search",
    summary="Find the nearest items",
    responses={200: {"model": Found}, **errors(400, 404, 408, 413, 415, 422, 504)},
    openapi_extra=raw_body(SearchBody),
)
async def search(request: Request, query: Annotated[SearchQuery, Query()]) -> Response:
    """Find the nearest items to vectors, or to a stored item, which is not its own neighbour.

    The distance is the number of bits in which codes differ; with `rescore`, that of the vectors themselves. With
    JSON, options stand in the body; with raw vectors, in the address. All of an answer is of one version.
    """
    service = service_of(request)
    kind = media_type(request)
    async with service.bodies.read(request) as body:
        vectors, key, wanted = await service.read(
            lambda index: _question(service, index, kind, body.data, query), body
        )
        filtered = wanted.where is not None
        return respond(
            await service.search(lambda index: _answer(service, index, vectors, key, wanted), body, filtered)
        )


def _answer(
    service: Service,
    index: OnlineIndex,
    vectors: NDArray[np.float32] | None,
    own: Key | None,
    wanted: SearchOptions,
) -> bytes:
    if own is not None:
        item = index.get(own)
        vectors, own = item.vector[None], item.key
    assert vectors is not None
    n, most = len(vectors), service.limits.results
    if wanted.radius is None and n * max(wanted.k, wanted.rescore) > most:
        raise Problem(
            422, "invalid_input", f"{n} queries times k or rescore must be at most {most:,}; ask in parts."
        )
    if wanted.radius is not None and n > 1 and n * len(index) > _COMPARED:
        raise Problem(422, "invalid_input", f"{n} queries by radius are too many for {len(index):,} items.")
    compared = service.limits.compared
    if wanted.radius is None and n > 1 and n * len(index) > compared:
        part = max(1, compared // len(index))
        message = f"{n:,} queries are too many for {len(index):,} items: ask in parts of {part:,}."
        raise Problem(422, "invalid_input", message)
    found = _search(index, vectors, own, wanted, service.limits)
    service.metrics.queries.add(n)
    return to_json(found)


def _question(
    service: Service, index: OnlineIndex, kind: str, body: bytes, query: SearchQuery
) -> tuple[NDArray[np.float32] | None, Key | None, SearchOptions]:
    """Return the queries, or the key of the stored item that is one, and the options."""
    if kind == JSON:
        if query.model_fields_set:
            raise Problem(422, "invalid_input", "With JSON the options stand in the body, not in the address.")
        asked = SearchBody.model_validate_json(body)
        _check_filter(asked, service.limits)
        return None if asked.vectors is None else checked(service, index, asked.vectors), asked.key, asked
    vectors = vectors_of(service, index, kind, body, query.features)
    given: dict[str, Any] = query.model_dump(exclude_none=True, exclude={"features"})
    if query.where is not None:
        given["where"] = _filter(query.where)
    if query.metadata is not None:
        given["metadata"] = query.metadata == "true"
    wanted = SearchOptions(**given)
    _check_filter(wanted, service.limits)
    return vectors, None, wanted


def _check_filter(wanted: SearchOptions, limits: Limits) -> None:
    """Refuse a filter before it waits for its turn."""
    if wanted.where is not None:
        compile_filter(wanted.where, limits.conditions)


def _filter(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Problem(422, "invalid_input", f"`where` must be JSON: {error!s:.200}.") from error


def _search(
    index: OnlineIndex, vectors: NDArray[np.float32], own: Key | None, wanted: SearchOptions, limits: Limits
) -> dict[str, Any]:
    spare = int(own is not None)  # it is found first, and left out
    rescore = wanted.rescore + spare if wanted.rescore else 0
    hits = index.search(vectors, wanted.k + spare, where=wanted.where, rescore=rescore, radius=wanted.radius)
    if wanted.radius is not None and sum(len(keys) for keys in hits.keys) > limits.results:
        message = f"More than {limits.results:,} items are so near: take a smaller radius."
        raise Problem(422, "invalid_input", message)
    results: list[dict[str, Any]] = []
    for keys, distances in zip(hits.keys, hits.distances, strict=True):
        found = list(zip(keys.tolist(), distances.tolist(), strict=True))
        if own is not None:
            found = [pair for pair in found if pair[0] != own][: wanted.k if wanted.radius is None else None]
        results.append({"keys": [key for key, _ in found], "distances": [far for _, far in found]})
    if wanted.metadata:
        found_keys = [key for result in results for key in result["keys"]]
        told = iter(index.metadata(found_keys, limits.answer_metadata))
        for result in results:
            result["metadata"] = list(islice(told, len(result["keys"])))
    answer = {"version": hits.version if hits.version >= 0 else None, "results": results}
    return answer | ({"missing_shards": list(hits.missing)} if hits.missing else {})
