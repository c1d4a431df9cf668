"""Routes of items: add, get, delete."""

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path, Query, Request, Response
from numpy.typing import NDArray
from starlette.convertors import StringConvertor, register_url_convertor

from .. import validation
from ..errors import UnknownName
from ..index.online_index import OnlineIndex
from ..store.keys import Key, readings
from ..store.metadata import encode_metadata
from ..store.sqlite.items import EncodedMetadata
from .index_service import Service, service_of
from .limits import Limits
from .openapi import body_of, route_responses
from .problems import invalid
from .request_bodies import FLOATS, JSON, media_type, parse, parse_vectors
from .responses import respond, to_json
from .schemas import Added, AddQuery, DeleteBody, Deleted, ItemsBody, StoredItem

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

    A request is stored as a whole, or not at all. With more than 500 rows the index goes on learning after the
    response. JSON takes keys, labels and metadata; rows of a binary body are numbered.
    """
    service, kind = service_of(request), media_type(request)
    async with service.bodies.receive(request) as body:
        vectors, more = await parse(body, lambda data: _parse_items(kind, data, query, service.limits))
        return respond(await service.write(lambda index: _add(service, index, vectors, more)), 201)


def _parse_items(
    kind: str, body: bytes, query: AddQuery, limits: Limits
) -> tuple[NDArray[np.float32], dict[str, Any]]:
    more: dict[str, Any] = {}
    if kind != JSON:
        vectors = parse_vectors(kind, body, query.features)
    elif query.features is not None:
        raise invalid(f"`features` is for {FLOATS}; with JSON leave it out.")
    else:
        items = ItemsBody.parse(body)
        vectors = validation.features("vectors", items.vectors, check=False)
        more = {"y": items.labels, "keys": items.keys, "metadata": _encode_metadata(items, limits.item_metadata)}
    if len(vectors) > limits.rows:
        raise invalid(f"A request may add {limits.rows:,} rows; got {len(vectors):,}: send in parts.")
    return vectors, more


def _encode_metadata(items: ItemsBody, most: int) -> list[EncodedMetadata | None] | None:
    """Return metadata as JSON text, so that the writer's thread need not encode it."""
    if items.metadata is None:
        return None
    found: list[EncodedMetadata | None] = []
    for place, each in enumerate(items.metadata):
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
    keys = service.add(index, vectors, **more)
    named = {"first": keys[0], "last": keys[-1]} if more.get("keys") is None else {"keys": keys}
    return to_json({"added": len(keys), **named, "items": len(index)})


@router.get(
    "/v1/items/{key:anystring}", summary="Get an item", responses=route_responses(StoredItem, 404, 422, 504)
)
async def get(request: Request, key: KeyInPath) -> Response:
    """Return an item: vector, label and metadata. A key that looks like a number is tried as a number first."""

    def work(index: OnlineIndex) -> bytes:
        return to_json(index.get(stored_key(index, key))._asdict())

    return respond(await service_of(request).read(work))


@router.delete(
    "/v1/items/{key:anystring}", summary="Delete an item", responses=route_responses(Deleted, 404, 422, 504)
)
async def delete(request: Request, key: KeyInPath) -> Response:
    """Delete an item. A key that looks like a number is tried as a number first."""
    return respond(await service_of(request).write(lambda index: _delete(index, [stored_key(index, key)])))


@router.post(
    "/v1/delete",
    summary="Delete several items",
    responses=route_responses(Deleted, 400, 404, 408, 413, 415, 422, 504),
    openapi_extra=body_of(DeleteBody, binary=False),
)
async def delete_several(request: Request) -> Response:
    """Delete items by key: all of them, or none if a key is unknown."""
    service = service_of(request)
    media_type(request, (JSON,))
    async with service.bodies.receive(request) as body:
        keys = (await parse(body, DeleteBody.parse)).keys
        return respond(await service.write(lambda index: _delete(index, keys)))


def _delete(index: OnlineIndex, keys: list[Key]) -> dict[str, int]:
    return {"deleted": index.delete(keys), "items": len(index)}


def stored_key(index: OnlineIndex, text: str) -> Key:
    """Return the stored key that a text in a path stands for."""
    candidates = readings(text)
    for key in candidates:
        try:
            return index.get(key).key
        except UnknownName:
            continue
    raise UnknownName(f"The key {candidates[0]!r:.200} is not stored.")
