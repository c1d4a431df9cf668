"""Routes of items: add, upsert, update, list, count, get, delete."""

from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path, Query, Request, Response
from numpy.typing import NDArray
from starlette.convertors import StringConvertor, register_url_convertor

from ..errors import UnknownName
from ..index.online_index import OnlineIndex
from ..index.page import is_place
from ..index.unknown_fields import without_warnings
from ..store.filters import compile_filter
from ..store.keys import Key, readings, stored_keys
from ..store.metadata import EncodedMetadata, encode_metadata
from .body_receiver import ANY, FLOATS, JSON, media_type, parse_filter, parse_vectors, vectors_of
from .index_service import Service, service_of
from .limits import Limits
from .openapi import body_of, route_responses
from .problems import invalid
from .responses import respond, to_json
from .schemas import (
    Added,
    AddQuery,
    Contained,
    CountBody,
    Counted,
    DeleteBody,
    Deleted,
    ItemsBody,
    KeysBody,
    Listed,
    ListQuery,
    StoredItem,
    StoredItems,
    UpdateBody,
    Updated,
    UpsertBody,
    Upserted,
    WhereQuery,
)

router = APIRouter(tags=["items"])

_ABOUT_KEY = (
    "A key, percent-encoded where necessary (%2F for a slash, %0A for a line feed). In double quotes (%22) it is "
    "a string, even if it looks like a number or is empty."
)
KeyInPath = Annotated[str, Path(description=_ABOUT_KEY)]


class _AnyString(StringConvertor):
    """The rest of a path, with slashes and line feeds."""

    regex = "(?s:.*)"


register_url_convertor("anystring", _AnyString())


@router.post(
    "/v1/items",
    status_code=201,
    summary="Add items",
    responses=route_responses(Added, 400, 408, 409, 413, 415, 422, 504, status=201),
    openapi_extra=body_of(ItemsBody),
)
async def add(request: Request, query: Annotated[AddQuery, Query()]) -> Response:
    """Store vectors and learn from them. When the response arrives they are on disk and can be found.

    A request is stored as a whole, or not at all. If a request has more than 500 rows, the index learns from the
    rest after it responds. JSON takes keys, labels and metadata; rows of a binary body are numbered.
    """
    service, kind = service_of(request), media_type(request)
    parser = partial(_parse_items, kind, query, service.limits)
    async with service.bodies.receive(request, parser, ANY) as (vectors, more):
        return respond(await service.write(lambda index: _add(service, index, vectors, more)), 201)


def _parse_items(
    kind: str, query: AddQuery, limits: Limits, body: bytes
) -> tuple[NDArray[np.float32], dict[str, Any]]:
    more: dict[str, Any] = {}
    if kind != JSON:
        vectors = parse_vectors(kind, body, query.features)
    elif query.features is not None:
        raise invalid(f"`features` is for {FLOATS}; with JSON leave it out.")
    else:
        items = ItemsBody.parse(body)
        vectors = vectors_of(items.vectors)
        metadata = _encode_metadata(items.metadata, limits.item_metadata)
        more = {"y": items.labels, "keys": items.keys, "metadata": metadata}
    check_rows(len(vectors), limits)
    return vectors, more


def check_rows(n: int, limits: Limits) -> None:
    """Refuse more rows than a request may store."""
    if n > limits.rows:
        raise invalid(f"A request may store at most {limits.rows:,} rows; got {n:,}. Send them in parts.")


def _encode_metadata(metadata: list[Any] | None, most: int) -> list[EncodedMetadata | None] | None:
    """Return metadata as JSON text, so that the writer's thread need not encode it."""
    if metadata is None:
        return None
    found: list[EncodedMetadata | None] = []
    for place, each in enumerate(metadata):
        text = encode_metadata(each)
        if text is not None and (n_bytes := len(text.encode())) > most:
            raise invalid(f"`metadata[{place}]` must be at most {most:,} bytes of JSON; got {n_bytes:,}.")
        found.append(None if text is None else EncodedMetadata(text))
    return found


def check_width(index: OnlineIndex, vectors: NDArray[np.float32], most: int) -> None:
    """Refuse vectors that are too wide for an index without items; the index checks those after the first."""
    if index.n_features is None and vectors.shape[1] > most:
        raise invalid(f"`vectors` must have at most {most:,} features; got {vectors.shape[1]:,}.")


def _add(service: Service, index: OnlineIndex, vectors: NDArray[np.float32], more: dict[str, Any]) -> bytes:
    check_width(index, vectors, service.limits.features)
    keys = service.store(index, len(vectors), lambda n: index.add(vectors, at_once=n, **more))
    named = {"first": keys[0], "last": keys[-1]} if more.get("keys") is None else {"keys": keys}
    return to_json({"added": len(keys), **named, "items": len(index)})


@router.put(
    "/v1/items",
    summary="Upsert items",
    responses=route_responses(Upserted, 400, 408, 409, 413, 415, 422, 504),
    openapi_extra=body_of(UpsertBody, binary=False),
)
async def upsert(request: Request) -> Response:
    """Store vectors under keys, replace items that have these keys, and learn from the vectors.

    A request is stored as a whole, or not at all. A replaced item counts as new: it is listed last.
    """
    service = service_of(request)
    parser = partial(_parse_change, UpsertBody, service.limits)
    async with service.bodies.receive(request, parser) as (items, vectors, metadata):
        assert vectors is not None

        def work(index: OnlineIndex) -> dict[str, int]:
            check_width(index, vectors, service.limits.features)
            before = len(index)
            service.store(
                index,
                len(vectors),
                lambda n: index.upsert(vectors, items.keys, items.labels, metadata, at_once=n),
            )
            added = len(index) - before
            return {"added": added, "replaced": len(vectors) - added, "items": len(index)}

        return respond(await service.write(work))


@router.patch(
    "/v1/items",
    summary="Update items",
    responses=route_responses(Updated, 400, 404, 408, 409, 413, 415, 422, 504),
    openapi_extra=body_of(UpdateBody, binary=False),
)
async def update(request: Request) -> Response:
    """Give stored keys new vectors, new metadata, or both: all of them, or none if a key is unknown.

    What is not given stays as it is. New metadata replaces all metadata of an item.
    """
    service = service_of(request)
    parser = partial(_parse_change, UpdateBody, service.limits)
    async with service.bodies.receive(request, parser) as (items, vectors, metadata):

        def work(index: OnlineIndex) -> dict[str, int]:
            n = 0 if vectors is None else len(vectors)
            service.store(
                index, n, lambda most: index.update(items.keys, vectors, items.labels, metadata, at_once=most)
            )
            return {"updated": len(items.keys), "items": len(index)}

        return respond(await service.write(work))


def _parse_change(
    schema: type[UpsertBody] | type[UpdateBody], limits: Limits, body: bytes
) -> tuple[UpsertBody | UpdateBody, NDArray[np.float32] | None, list[EncodedMetadata | None] | None]:
    items = schema.parse(body)
    vectors = None if items.vectors is None else vectors_of(items.vectors)
    check_rows(len(items.keys), limits)
    return items, vectors, _encode_metadata(items.metadata, limits.item_metadata)


@router.get("/v1/items", summary="List items", responses=route_responses(Listed, 404, 422, 504))
async def list_items(request: Request, query: Annotated[ListQuery, Query()]) -> Response:
    """Return keys and metadata of items in the order of their age; `next` is where the next page begins.

    It stays valid if items are replaced or deleted meanwhile. A replaced item is the youngest, and listed last.
    """
    service = service_of(request)
    where = None if query.where is None else parse_filter(query.where)
    if where is not None:
        compile_filter(where, service.limits.conditions)

    def work(index: OnlineIndex) -> bytes:
        with without_warnings():
            page = index.page(where, _place(index, query.after), query.limit)
        metadata = index.metadata(page.keys, service.limits.answer_metadata)
        items = [{"key": key, "metadata": each} for key, each in zip(page.keys, metadata, strict=True)]
        return to_json({"items": items, "next": page.next, **_unknown(index, where, len(items))})

    return respond(await service.read(work, slow=where is not None))


@router.post(
    "/v1/get",
    summary="Get several items",
    responses=route_responses(StoredItems, 400, 404, 408, 413, 415, 422, 504),
    openapi_extra=body_of(KeysBody, binary=False),
)
async def get_several(request: Request) -> Response:
    """Return items: vectors, labels and metadata, in the order of the keys; an unknown key is an error."""
    service = service_of(request)
    async with service.bodies.receive(request, KeysBody.parse) as body:
        keys = body.keys

        def work(index: OnlineIndex) -> bytes:
            index.metadata(keys, service.limits.answer_metadata)  # refused where it is too much
            return to_json({"items": [item._asdict() for item in index.get(keys)]})

        return respond(await service.read(work))


@router.post(
    "/v1/contains",
    summary="Tell which keys are stored",
    responses=route_responses(Contained, 400, 408, 413, 415, 422, 504),
    openapi_extra=body_of(KeysBody, binary=False),
)
async def contains(request: Request) -> Response:
    """Return for each key whether it is stored."""
    service = service_of(request)
    async with service.bodies.receive(request, KeysBody.parse) as body:
        keys = body.keys
        return respond(await service.read(lambda index: {"contains": index.contains(keys).tolist()}))


@router.post(
    "/v1/count",
    summary="Count items",
    responses=route_responses(Counted, 400, 408, 413, 415, 422, 504),
    openapi_extra=body_of(CountBody, binary=False),
)
async def count(request: Request) -> Response:
    """Return how many items match a filter; without one, how many there are."""
    service = service_of(request)
    async with service.bodies.receive(request, CountBody.parse) as body:
        where = body.where
        if where is not None:
            compile_filter(where, service.limits.conditions)

        def work(index: OnlineIndex) -> dict[str, Any]:
            with without_warnings():
                n = index.count(where)
            return {"count": n, **_unknown(index, where, n)}

        return respond(await service.read(work, slow=where is not None))


@router.delete("/v1/items", summary="Delete by filter", responses=route_responses(Deleted, 422, 504))
async def delete_matching(request: Request, query: Annotated[WhereQuery, Query()]) -> Response:
    """Delete the items whose metadata matches a filter."""
    service, where = service_of(request), parse_filter(query.where)
    compile_filter(where, service.limits.conditions)
    return respond(await service.write(lambda index: _delete(index, None, where)))


@router.get(
    "/v1/items/{key:anystring}", summary="Get an item", responses=route_responses(StoredItem, 404, 422, 504)
)
async def get(request: Request, key: KeyInPath) -> Response:
    """Return an item: vector, label and metadata. A key that looks like a number is tried as a number first."""

    def work(index: OnlineIndex) -> bytes:
        return to_json(index.get(_stored_key(index, key))._asdict())

    return respond(await service_of(request).read(work))


@router.delete(
    "/v1/items/{key:anystring}", summary="Delete an item", responses=route_responses(Deleted, 404, 422, 504)
)
async def delete(request: Request, key: KeyInPath) -> Response:
    """Delete an item. A key that looks like a number is tried as a number first."""
    return respond(await service_of(request).write(lambda index: _delete(index, [_stored_key(index, key)])))


@router.post(
    "/v1/delete",
    summary="Delete several items",
    responses=route_responses(Deleted, 400, 404, 408, 413, 415, 422, 504),
    openapi_extra=body_of(DeleteBody, binary=False),
)
async def delete_several(request: Request) -> Response:
    """Delete items by key, all of them or none if a key is unknown; or those that match a filter."""
    service = service_of(request)
    async with service.bodies.receive(request, DeleteBody.parse) as chosen:
        if chosen.where is not None:
            compile_filter(chosen.where, service.limits.conditions)
        return respond(await service.write(lambda index: _delete(index, chosen.keys, chosen.where)))


def _delete(index: OnlineIndex, keys: list[Key] | None, where: dict[str, Any] | None = None) -> dict[str, Any]:
    with without_warnings():
        n = index.delete(keys, where)
    return {"deleted": n, "items": len(index), **_unknown(index, where, n)}


def _unknown(index: OnlineIndex, where: dict[str, Any] | None, n_matching: int) -> dict[str, list[str]]:
    """Return a field with the names that no item has, where a filter matches nothing and has such names."""
    names = index.unknown_fields(where) if where and not n_matching else []
    return {"unknown_fields": names} if names else {}


def _place(index: OnlineIndex, after: str | None) -> str | None:
    """Return the place that `next` of a page, or a key, stands for."""
    if after is None or is_place(after):
        return after
    for key in readings(after):
        with suppress(UnknownName):
            return index.place(key)
    raise UnknownName(f"The key {readings(after)[0]!r:.200} is not stored.")


def _stored_key(index: OnlineIndex, text: str) -> Key:
    """Return the stored key that a text in a path stands for."""
    return stored_keys([text], index.contains)[0]
