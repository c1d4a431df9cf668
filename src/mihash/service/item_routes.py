"""Addresses of items: add, get and delete."""

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path, Query, Request, Response
from numpy.typing import NDArray
from starlette.convertors import StringConvertor, register_url_convertor

from .. import validation
from ..errors import UnknownName
from ..index.online_index import OnlineIndex
from ..store.filters import encode_metadata
from ..store.keys import Key, readings
from ..store.sqlite.items import EncodedMetadata
from .openapi import errors, raw_body, service_of
from .problems import Problem
from .request_bodies import FLOATS, JSON, media_type, read_floats, read_npy
from .responses import respond, to_json
from .schemas import Added, AddQuery, DeleteBody, Deleted, ItemsBody, StoredItem
from .service import Service

router = APIRouter(tags=["items"])

_ABOUT_KEY = (
    "A key, percent-encoded where need be (%2F for a slash, %0A for a line's end); in double quotes (%22) it is a "
    "text, even where it reads as a number or is empty."
)
InPath = Annotated[str, Path(description=_ABOUT_KEY)]


class _AnyText(StringConvertor):
    """The rest of an address, whatever is in it; line ends and slashes, too."""

    regex = "(?s:.*)"


register_url_convertor("anytext", _AnyText())


@router.post(
    "/v1/items",
    status_code=201,
    summary="Store items and learn from them",
    responses={201: {"model": Added}, **errors(400, 408, 409, 413, 415, 422, 504)},
    openapi_extra=raw_body(ItemsBody),
)
async def add(request: Request, query: Annotated[AddQuery, Query()]) -> Response:
    """Store vectors and learn from them; they are on the disk, and found, when the answer comes.

    All of a request is stored, or nothing. From more than 500 rows the index goes on learning after the answer.
    JSON takes keys, labels and metadata; raw vectors are numbered.
    """
    service = service_of(request)
    kind = media_type(request)
    async with service.bodies.read(request) as body:

        def read(index: OnlineIndex) -> tuple[NDArray[np.float32], dict[str, Any]]:
            found = _items(service, index, kind, body.data, query)
            n, most = len(found[0]), service.limits.rows
            if n > most:
                raise Problem(422, "invalid_input", f"A request may add {most:,} rows; got {n:,}: send in parts.")
            return found

        vectors, more = await service.read(read, body)
        return respond(await service.change(lambda index: _add(service, index, vectors, more), body), 201)


def _items(
    service: Service, index: OnlineIndex, kind: str, body: bytes, query: AddQuery
) -> tuple[NDArray[np.float32], dict[str, Any]]:
    if kind != JSON:
        return vectors_of(service, index, kind, body, query.features), {}
    if query.features is not None:
        raise Problem(422, "invalid_input", f"`features` is for {FLOATS}; with JSON leave it out.")
    items = ItemsBody.model_validate_json(body)
    more = {"y": items.labels, "keys": items.keys, "metadata": _metadata(items, service.limits.item_metadata)}
    return checked(service, index, items.vectors), more


def _metadata(items: ItemsBody, most: int) -> list[EncodedMetadata | None] | None:
    """Return the metadata of items as texts, made before the one writer is asked for, which need not wait then."""
    if items.metadata is None:
        return None
    found: list[EncodedMetadata | None] = []
    for place, each in enumerate(items.metadata):
        text = encode_metadata(each)
        if text is not None and (n_bytes := len(text.encode())) > most:
            message = f"`metadata[{place}]` must be at most {most:,} bytes of JSON; got {n_bytes:,}."
            raise Problem(422, "invalid_input", message)
        found.append(None if text is None else EncodedMetadata(text))
    return found


def vectors_of(
    service: Service, index: OnlineIndex, kind: str, body: bytes, n_features: int | None
) -> NDArray[np.float32]:
    """Return the vectors of a raw body, of the width that the index has."""
    return checked(service, index, read_floats(body, n_features) if kind == FLOATS else read_npy(body))


def checked(service: Service, index: OnlineIndex, vectors: Any) -> NDArray[np.float32]:
    """Return vectors of the width that the index has; the first may have any width up to a limit."""
    most = service.limits.features
    found = validation.features("vectors", vectors, index.n_features)
    if index.n_features is None and found.shape[1] > most:
        message = f"`vectors` must have at most {most:,} features; got {found.shape[1]:,}."
        raise Problem(422, "invalid_input", message)
    return found


def _add(service: Service, index: OnlineIndex, vectors: NDArray[np.float32], more: dict[str, Any]) -> bytes:
    keys = service.add(index, vectors, **more)
    numbered = more.get("keys") is None
    named = {"first": keys[0], "last": keys[-1]} if numbered else {"keys": keys}
    return to_json({"added": len(keys), **named, "items": len(index)})


@router.get(
    "/v1/items/{key:anytext}",
    summary="Get an item",
    responses={200: {"model": StoredItem}, **errors(404, 422, 504)},
)
async def get(request: Request, key: InPath) -> Response:
    """Return an item: vector, label and metadata. A key that reads as a number is one, where that is stored."""

    def work(index: OnlineIndex) -> bytes:
        return to_json(index.get(stored_key(index, key))._asdict())

    return respond(await service_of(request).look(work))


@router.delete(
    "/v1/items/{key:anytext}",
    summary="Delete an item",
    responses={200: {"model": Deleted}, **errors(404, 422, 504)},
)
async def delete(request: Request, key: InPath) -> Response:
    """Remove an item. A key that reads as a number is one, where that is stored."""
    return respond(await service_of(request).change(lambda index: _delete(index, [stored_key(index, key)])))


@router.post(
    "/v1/delete",
    summary="Delete several items",
    responses={200: {"model": Deleted}, **errors(400, 404, 408, 413, 415, 422, 504)},
    openapi_extra=raw_body(DeleteBody, raw=False),
)
async def delete_several(request: Request) -> Response:
    """Remove items: all of them, or with an unknown key none."""
    service = service_of(request)
    if media_type(request) != JSON:
        raise Problem(415, "unsupported_type", f"The Content-Type must be {JSON}.")
    async with service.bodies.read(request) as body:
        keys = (await service.read(lambda _: DeleteBody.model_validate_json(body.data), body)).keys
        return respond(await service.change(lambda index: _delete(index, keys), body))


def _delete(index: OnlineIndex, keys: list[Key]) -> dict[str, int]:
    return {"deleted": index.delete(keys), "items": len(index)}


def stored_key(index: OnlineIndex, text: str) -> Key:
    """Return the stored key that a text in an address means."""
    meant = readings(text)
    for key in meant:
        try:
            return index.get(key).key
        except UnknownName:
            continue
    raise UnknownName(f"The key {meant[0]!r:.200} is not stored.")
