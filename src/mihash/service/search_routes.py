"""The route that searches."""

from contextlib import nullcontext
from functools import partial
from itertools import islice
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from numpy.typing import NDArray

from ..index.online_index import OnlineIndex
from ..index.unknown_fields import without_warnings
from ..store.filters import compile_filter
from ..store.keys import Key
from .body_receiver import ANY, JSON, media_type, parse_filter, parse_vectors, vectors_of
from .index_service import Service, service_of
from .inline_searches import MOST_K
from .item_routes import check_width
from .limits import Limits
from .openapi import body_of, route_responses
from .problems import invalid
from .responses import numbers_to_json, respond, to_json
from .schemas import Found, SearchBody, SearchOptions, SearchQuery

router = APIRouter(tags=["search"])

_MAX_PAIRS = 1 << 25  # pairs of a query and an item that a radius search may hold at a time


@router.post(
    "/v1/search",
    summary="Find the nearest items",
    responses=route_responses(Found, 400, 404, 408, 413, 415, 422, 504),
    openapi_extra=body_of(SearchBody),
)
async def search(request: Request, query: Annotated[SearchQuery, Query()]) -> Response:
    """Find the nearest items to vectors, or to a stored item, which is not among its own neighbours.

    `measure` says what distances are: of the vectors (`euclidean`, `cosine` or `ip`). With `rescore` 0 they are
    sums of the query's margins over the bits that differ, or estimates made from them (`margin`). With `radius`,
    or `rescore` 0 and `margins` false, they are Hamming distances of codes. With JSON the options are in the body,
    with binary vectors in the query string. All results of a response are from one version.
    """
    service, kind = service_of(request), media_type(request)
    parser = partial(_parse_search, kind, query, service.limits)
    async with service.bodies.receive(request, parser, ANY) as (vectors, key, options):

        def answer(index: OnlineIndex) -> bytes:
            return _search(service, index, vectors, key, options)

        if _is_by_codes(vectors, options):
            return respond(await service.read_from_memory(answer, options.margins))
        return respond(await service.read(answer, slow=options.where is not None))


def _is_by_codes(vectors: NDArray[np.float32] | None, options: SearchOptions) -> bool:
    """Tell whether a search is one query for a few results, answered by codes alone."""
    return (
        options.rescore == 0
        and vectors is not None
        and len(vectors) == 1
        and options.k <= MOST_K
        and options.where is None
        and options.radius is None
        and not options.metadata
    )


def _parse_search(
    kind: str, query: SearchQuery, limits: Limits, body: bytes
) -> tuple[NDArray[np.float32] | None, Key | None, SearchOptions]:
    """Return the queries, or the key of the stored item that is one, and the options."""
    vectors, key = None, None
    options: SearchOptions | SearchBody
    if kind != JSON:
        vectors = parse_vectors(kind, body, query.features)
        where = None if query.where is None else parse_filter(query.where)
        options = SearchOptions(**query.model_dump(exclude={"features"}) | {"where": where})
    elif query.model_fields_set:
        raise invalid("With JSON, options are in the body, not in the query string.")
    else:
        options = SearchBody.parse(body)
        key = options.key
        if options.vectors is not None:
            vectors = vectors_of(options.vectors)
    if options.where is not None:
        compile_filter(options.where, limits.conditions)  # refused before it waits in the queue
    return vectors, key, options


def _search(
    service: Service,
    index: OnlineIndex,
    vectors: NDArray[np.float32] | None,
    key: Key | None,
    options: SearchOptions,
) -> bytes:
    limits, n_queries = service.limits, 1
    if vectors is not None:
        check_width(index, vectors, limits.features)
        n_queries = len(vectors)
    _check_size(n_queries, len(index), options, limits)
    with without_warnings() if options.where else nullcontext():
        hits = index.search(
            vectors, options.k, key=key, where=options.where, rescore=options.rescore, radius=options.radius,
            margins=options.margins, recall=options.recall,
        )  # fmt: skip
    keys, distances = (hits.keys, hits.distances) if key is None else ([hits.keys], [hits.distances])
    if options.radius is not None and sum(map(len, keys)) > limits.results:
        raise invalid(f"More than {limits.results:,} items are within this distance: use a smaller radius.")
    results = [{"keys": keys[i].tolist(), "distances": distances[i].tolist()} for i in range(n_queries)]
    if options.metadata:
        found = [each for result in results for each in result["keys"]]
        metadata = iter(index.metadata(found, limits.answer_metadata))
        for result in results:
            result["metadata"] = list(islice(metadata, len(result["keys"])))
    response: dict[str, Any] = {"version": hits.version, "measure": hits.measure, "results": results}
    if options.where and not any(map(len, keys)) and (unknown := index.unknown_fields(options.where)):
        response["unknown_fields"] = unknown
    if hits.missing:
        response["missing_shards"] = list(hits.missing)
    service.metrics.queries.add(n_queries)
    return to_json(response) if options.metadata else numbers_to_json(response)


def _check_size(n_queries: int, n_items: int, options: SearchOptions, limits: Limits) -> None:
    """Refuse a request whose response or whose work would be too large."""
    n_pairs = n_queries * n_items if n_queries > 1 else 0
    if options.radius is not None:
        if n_pairs > _MAX_PAIRS:
            raise invalid(f"{n_queries} queries by radius are too many for {n_items:,} items.")
        return
    if n_queries * max(options.k, options.rescore or 0) > limits.results:
        raise invalid(
            f"{n_queries} queries times k or rescore must be at most {limits.results:,}; send fewer at a time."
        )
    if n_pairs > limits.compared:
        part = max(1, limits.compared // n_items)
        raise invalid(
            f"{n_queries:,} queries are too many for {n_items:,} items: send at most {part:,} at a time."
        )
