"""The JSON of requests and responses, as in /openapi.json. An unknown field of a request is an error."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from ..index.stats import Stats as StatsRecord
from ..loop.decisions import Check as CheckRecord
from ..loop.hindsight import Hindsight as HindsightRecord
from ..store.question import Question
from ..store.sqlite.code_versions import Version as VersionRecord
from .problems import invalid
from .record_schemas import record_schema
from .validation_messages import validation_message

MAX_K, MAX_RESCORE, MAX_RADIUS, MAX_DECISIONS = 10_000, 100_000, 4096, 10_000
MAX_LISTED, MAX_GOT, DECISIONS = 10_000, 1000, 1000

Vectors = Annotated[
    list[Annotated[list[float], Field(min_length=1, fail_fast=True)]], Field(min_length=1, fail_fast=True)
]
Integer = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
Key = Integer | Annotated[str, Field(pattern="^[^\\x00]*$")]
Keys = Annotated[list[Key], Field(fail_fast=True)]
Bits = Annotated[list[Annotated[int, Field(ge=0, le=1)]], Field(fail_fast=True)]
Labels = (
    Annotated[list[Integer | None], Field(fail_fast=True)]
    | Annotated[list[str | None], Field(fail_fast=True)]
    | Annotated[list[Bits | None], Field(fail_fast=True)]
)
Object = dict[str, JsonValue]
UnknownFields = Annotated[
    list[str], Field(description="If the filter matches nothing: its fields that no item has, if there are any.")
]

_VECTORS_OR_KEY: dict[str, Any] = {
    "oneOf": [
        {"required": ["vectors"], "properties": {"vectors": {"type": "array"}, "key": {"type": "null"}}},
        {"required": ["key"], "properties": {"key": {"type": ["integer", "string"]}, "vectors": {"type": "null"}}},
    ]
}


class _Request(BaseModel):
    """A body or a query string, without unknown fields."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Return a JSON body; a value of another type, such as "3" for a number, is an error."""
        try:
            return cls.model_validate_json(body, strict=True)
        except ValidationError as error:
            errors = error.errors()
            if any(each["type"] == "extra_forbidden" for each in errors):
                raise invalid(validation_message(errors, cls.model_fields)) from error
            raise


class ItemsBody(_Request):
    """Items to store and to learn from."""

    vectors: Vectors = Field(description="One vector for each item, all of one width.")
    keys: Keys | None = Field(default=None, description="Unique keys; by default sequential numbers.")
    labels: Labels | None = Field(
        default=None, description="A class for each item, number or name, or lists of 0 and 1; null if missing."
    )
    metadata: Annotated[list[Object | None], Field(fail_fast=True)] | None = Field(
        default=None, description="An object for each item, to filter by and to return."
    )


class AddQuery(_Request):
    """Options of a binary body."""

    features: int | None = Field(
        default=None, ge=1, le=2**24, description="The width of a row of application/octet-stream."
    )


_OPTIONS = {each.name: each for each in Question.options()}


def _option(name: str, most: int | None = None) -> Any:
    """Return the field of a search option, with the default and the description that `Question` has."""
    option = _OPTIONS[name]
    return Field(default=option.default, ge=option.minimum, le=most, description=option.description)


class SearchOptions(_Request):
    """Options of a search, as `OnlineIndex.search` takes them, and whether metadata is returned."""

    k: int = _option("k", MAX_K)
    where: Object | None = _option("where")
    rescore: int | None = _option("rescore", MAX_RESCORE)
    radius: int | None = _option("radius", MAX_RADIUS)
    margins: bool | None = _option("margins")
    recall: float | None = Field(default=None, gt=0, le=1, description=_OPTIONS["recall"].description)
    metadata: bool = Field(default=False, description="Whether to return metadata.")


class SearchBody(SearchOptions):
    """A search by vectors, or for the neighbours of a stored item."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_VECTORS_OR_KEY)

    vectors: Vectors | None = Field(default=None, description="Queries.")
    key: Key | None = Field(default=None, description="A stored item; it is not among its own neighbours.")

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.vectors is None) == (self.key is None):
            raise ValueError("Give exactly one of `vectors` and `key`")
        return self


class SearchQuery(SearchOptions, AddQuery):
    """Options of a search with a binary body; with JSON they are in the body."""

    where: str | None = Field(default=None, description="A filter, as JSON.")  # type: ignore[assignment]
    margins: Literal["true", "false"] | None = _option("margins")  # type: ignore[assignment]
    metadata: Literal["true", "false"] = Field(  # type: ignore[assignment]
        default="false", description="Whether to return metadata."
    )


class UpsertBody(ItemsBody):
    """Items to store under their keys; stored items with these keys are replaced."""

    keys: Keys = Field(description="A key for each item, all different.")
    metadata: Annotated[list[Object | None], Field(fail_fast=True)] | None = Field(
        default=None, description="An object for each item; without it, stored items keep theirs."
    )


class UpdateBody(_Request):
    """New vectors for stored keys, new metadata, or both."""

    keys: Keys = Field(description="Keys of stored items, all different.")
    vectors: Vectors | None = Field(default=None, description="One vector for each item.")
    labels: Labels | None = Field(default=None, description="With vectors: a class for each, or null.")
    metadata: Annotated[list[Object | None], Field(fail_fast=True)] | None = Field(
        default=None, description="An object for each item; it replaces the stored metadata."
    )


class KeysBody(_Request):
    """Keys of items."""

    keys: Annotated[list[Key], Field(fail_fast=True, max_length=MAX_GOT)]


class CountBody(_Request):
    """Which items to count."""

    where: Object | None = Field(default=None, description="A filter; without it all items are counted.")


_KEYS_OR_WHERE: dict[str, Any] = {
    "oneOf": [
        {"required": ["keys"], "properties": {"keys": {"type": "array"}, "where": {"type": "null"}}},
        {"required": ["where"], "properties": {"where": {"type": "object"}, "keys": {"type": "null"}}},
    ]
}


class DeleteBody(_Request):
    """Keys of items to delete, or a filter that they match."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_KEYS_OR_WHERE)

    keys: Keys | None = Field(default=None, description="All of them are deleted, or none if one is unknown.")
    where: Object | None = Field(default=None, description="Delete the items whose metadata matches this filter.")

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.keys is None) == (self.where is None):
            raise ValueError("Give exactly one of `keys` and `where`")
        return self


class WhereQuery(_Request):
    """Which items to delete."""

    where: str = Field(description="A filter, as JSON; {} matches every item.")


class ListQuery(_Request):
    """Which items to list."""

    after: str | None = Field(
        default=None,
        description="`next` of the page before; or a key, written as in a path, to list the items after it.",
    )
    limit: int = Field(default=100, ge=1, le=MAX_LISTED, description="How many to list at most.")
    where: str | None = Field(default=None, description="List only items that match a filter, as JSON.")


class PriceBody(_Request):
    """What a rehash costs."""

    price: float | None = Field(
        default=None, ge=0, lt=1e15, description="In queries; by default measured: rehash time / query time."
    )


class MigrationBody(_Request):
    """Options of the new vectors; by default those of the index."""

    n_bits: int | None = Field(default=None, ge=1, le=4096, description="Code length.")
    metric: Literal["euclidean", "cosine", "ip"] | None = Field(default=None, description="Distance of vectors.")


class MigrationItemsBody(_Request):
    """New vectors of stored items."""

    vectors: Vectors = Field(description="One vector for each key, all of one width.")
    keys: Keys = Field(description="The keys of the items.")


class CutOverBody(_Request):
    """How to cut over."""

    force: bool = Field(default=False, description="Leave out items that have no new vector.")


class HistoryQuery(_Request):
    """Which decisions to return."""

    after: int | None = Field(
        default=None,
        ge=-1,
        le=2**53,
        description="Return the decisions after this number, oldest first; by default the newest.",
    )
    limit: int = Field(default=DECISIONS, ge=1, le=MAX_DECISIONS, description="How many to return at most.")


class HindsightQuery(_Request):
    """What a rehash costs."""

    price: float | None = Field(
        default=None, ge=0, lt=1e15, description="In queries; by default that of the trigger, or 20."
    )


class ErrorDetail(BaseModel):
    """A code for programs and a message for people."""

    code: str
    message: str


class Error(BaseModel):
    """An error."""

    error: ErrorDetail


class Added(BaseModel):
    """What was stored. It is on disk."""

    added: int
    keys: list[int | str] | None = Field(default=None, description="The keys that were given.")
    first: int | None = Field(default=None, description="Without keys, the number of the first item.")
    last: int | None = Field(default=None, description="Without keys, the number of the last item.")
    items: int = Field(description="How many items the index has now.")


class Upserted(BaseModel):
    """What was stored. It is on disk."""

    added: int = Field(description="How many items are new.")
    replaced: int = Field(description="How many items were replaced.")
    items: int = Field(description="How many items the index has now.")


class Updated(BaseModel):
    """What was updated. It is on disk."""

    updated: int
    items: int


class ListedItem(BaseModel):
    """The key of an item, and its metadata."""

    key: int | str
    metadata: dict[str, Any] | None


class Listed(BaseModel):
    """Items, oldest first."""

    items: list[ListedItem]
    next: str | None = Field(description="Pass it as `after` to list the next items; null at the end.")
    unknown_fields: UnknownFields = []


class Deleted(BaseModel):
    """What was deleted."""

    deleted: int
    items: int
    unknown_fields: UnknownFields = []


class Counted(BaseModel):
    """How many items match."""

    count: int
    unknown_fields: UnknownFields = []


class Contained(BaseModel):
    """Which keys are stored."""

    contains: list[bool] = Field(description="One value for each key, in the order of the request.")


class Result(BaseModel):
    """The nearest items to one query, nearest first."""

    keys: list[int | str]
    distances: list[float] = Field(description="In the unit of `measure`.")
    metadata: list[dict[str, Any] | None] | None = None


class Found(BaseModel):
    """One result for each query, all from one version of the codes."""

    version: int | None
    measure: str = Field(description="What the distances are: hamming, margin, or with rescore the metric.")
    results: list[Result]
    unknown_fields: UnknownFields = []
    missing_shards: list[int] = Field(default=[], description="Shards of an index on Ray that did not respond.")


class StoredItem(BaseModel):
    """A stored item."""

    key: int | str
    vector: list[float]
    label: int | str | list[int] | None
    metadata: dict[str, Any] | None


class StoredItems(BaseModel):
    """Stored items, in the order of the keys that were asked for."""

    items: list[StoredItem]


class Rates(BaseModel):
    """Means over the last ten seconds."""

    rows_per_s: float
    queries_per_s: float


class Shard(BaseModel):
    """A shard of an index on Ray (docs/scale.md)."""

    shard: int
    node: str
    path: str
    state: str = Field(description="starting, up, silent or lost.")
    version: int | None
    items: int | None
    lag: int = Field(description="Log entries that it has not received yet.")
    restarts: int
    bytes_on_disk: int | None


Stats = record_schema(
    StatsRecord,
    theta=(float | str | None, ...),  # JSON has no infinity
    shards=(list[Shard], []),
    seen=(int, Field(description="Rows that were learned from.")),
    behind=(int, Field(description="Stored rows that were not learned from yet.")),
    read_only=(bool, ...),
    worker=(int | None, ...),
    uptime_s=(float, ...),
    rates=(Rates, ...),
    options=(dict[str, Any], Field(description="What the index was created with.")),
    note=(str | None, Field(description="A note about the stream of the demo.")),
)


Check = record_schema(CheckRecord)
QualityPoint = record_schema(
    CheckRecord,
    "QualityPoint",
    without=("gain", "status", "items", "seconds"),
    theta=(float | str | None, Field(description="The gain in bits that a rehash had to exceed.")),
)


class History(BaseModel):
    """Checks, oldest first."""

    decisions: list[Check]  # type: ignore[valid-type]


class Quality(BaseModel):
    """Points, oldest first."""

    points: list[QualityPoint]  # type: ignore[valid-type]


Hindsight = record_schema(HindsightRecord)
Version = record_schema(VersionRecord)


class Versions(BaseModel):
    """Versions, oldest first."""

    versions: list[Version]  # type: ignore[valid-type]


class Distances(BaseModel):
    """Distributions of distances to neighbours and to non-neighbours, on the reservoir under one mapping."""

    version: int | None
    n_bits: int
    neighbors: list[float]
    others: list[float]
    information: float
    sample: int


class Status(BaseModel):
    """The state of the service."""

    status: str


class Price(BaseModel):
    """The price of a rehash, in queries."""

    price: float


class State(BaseModel):
    """The state of the index after a command."""

    version: int | None
    rehashing: bool
    paused: bool
