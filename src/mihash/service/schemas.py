"""The JSON that goes in and out, as it stands in /openapi.json. A field that is not known is an error."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

MOST_NEIGHBORS, MOST_RESCORED, MOST_BITS, MOST_DECISIONS = 10_000, 100_000, 4096, 10_000
DECISIONS = 1000

Number = Annotated[float, Field(strict=True)]
Row = Annotated[list[Number], Field(min_length=1, fail_fast=True)]
Vectors = Annotated[list[Row], Field(min_length=1, fail_fast=True)]
Whole = Annotated[int, Field(strict=True, ge=-(2**63), le=2**63 - 1)]
Key = Whole | Annotated[str, Field(strict=True, pattern="^[^\\x00]*$")]
Keys = Annotated[list[Key], Field(fail_fast=True)]
Bits = Annotated[list[Annotated[int, Field(strict=True, ge=0, le=1)]], Field(fail_fast=True)]
Labels = Annotated[list[Whole], Field(fail_fast=True)] | Annotated[list[Bits], Field(fail_fast=True)]
Object = dict[str, JsonValue]

_ONE_OF: dict[str, Any] = {
    "oneOf": [
        {"required": ["vectors"], "properties": {"vectors": {"type": "array"}, "key": {"type": "null"}}},
        {"required": ["key"], "properties": {"key": {"type": ["integer", "string"]}, "vectors": {"type": "null"}}},
    ]
}


class _Request(BaseModel):
    """What comes in: of the types that it says, and nothing else."""

    model_config = ConfigDict(extra="forbid")


class ItemsBody(_Request):
    """Items to store and to learn from."""

    vectors: Vectors = Field(description="One vector an item, all of one width.")
    keys: Keys | None = Field(default=None, description="Unique; running numbers without.")
    labels: Labels | None = Field(default=None, description="A class each, or 0 or 1 for each class.")
    metadata: Annotated[list[Object | None], Field(fail_fast=True)] | None = Field(
        default=None, description="An object each, to filter by and to get back."
    )


class AddQuery(_Request):
    """Options of a raw body."""

    features: int | None = Field(
        default=None, ge=1, le=2**24, description="The width of application/octet-stream."
    )


class SearchOptions(_Request):
    """How to look."""

    k: int = Field(default=10, strict=True, ge=1, le=MOST_NEIGHBORS, description="How many neighbours.")
    where: Object | None = Field(default=None, description="Only items whose metadata matches (docs/index.md).")
    rescore: int = Field(
        default=0, strict=True, ge=0, le=MOST_RESCORED, description="Nearest codes to order by their vectors."
    )
    radius: Annotated[int, Field(strict=True, ge=0, le=MOST_BITS)] | None = Field(
        default=None, description="In place of k, all items at most so many bits away."
    )
    metadata: bool = Field(default=False, strict=True, description="Whether to give back metadata.")


class SearchBody(SearchOptions):
    """What to look for: vectors, or the neighbours of a stored item."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_ONE_OF)

    vectors: Vectors | None = Field(default=None, description="Queries.")
    key: Key | None = Field(default=None, description="A stored item; it is not its own neighbour.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.vectors is None) == (self.key is None):
            raise ValueError("Give `vectors` or `key`, one of the two")
        return self


class SearchQuery(AddQuery):
    """Options of a raw body; with JSON they stand in the body."""

    k: int | None = Field(default=None, ge=1, le=MOST_NEIGHBORS, description="How many neighbours (10).")
    where: str | None = Field(default=None, description="A filter, as JSON.")
    rescore: int | None = Field(
        default=None, ge=0, le=MOST_RESCORED, description="Codes to order by their vectors."
    )
    radius: int | None = Field(default=None, ge=0, le=MOST_BITS, description="In place of k.")
    metadata: Literal["true", "false"] | None = Field(default=None, description="Whether to give back metadata.")


class DeleteBody(_Request):
    """Keys of items to remove."""

    keys: Keys


class HistoryQuery(_Request):
    """Which decisions."""

    after: int | None = Field(
        default=None,
        ge=-1,
        le=2**53,
        description="Only those after this number, the oldest first; without, the newest.",
    )
    limit: int = Field(default=DECISIONS, ge=1, le=MOST_DECISIONS, description="At most so many.")


class Error(BaseModel):
    """What went wrong: a code for programs, and a message for people."""

    class Told(BaseModel):
        """The code and the message."""

        code: str
        message: str

    error: Told


class Added(BaseModel):
    """What was stored; it is on the disk."""

    added: int
    keys: list[int | str] | None = Field(default=None, description="The keys that were given.")
    first: int | None = Field(default=None, description="Without keys, the running number of the first item.")
    last: int | None = Field(default=None, description="Without keys, that of the last one.")
    items: int = Field(description="How many items there are now.")


class Deleted(BaseModel):
    """What was removed."""

    deleted: int
    items: int


class Result(BaseModel):
    """The nearest items to one query, nearest first."""

    keys: list[int | str]
    distances: list[float] = Field(description="Bits that differ; with rescore, the distance of the vectors.")
    metadata: list[dict[str, Any] | None] | None = None


class Found(BaseModel):
    """One result for each query, all from one version."""

    version: int | None
    results: list[Result]
    missing_shards: list[int] = Field(default=[], description="Of an index on Ray, those that did not answer.")


class StoredItem(BaseModel):
    """A stored item."""

    key: int | str
    vector: list[float]
    label: int | list[int] | None
    metadata: dict[str, Any] | None


class Rates(BaseModel):
    """Means of the last ten seconds."""

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
    lag: int = Field(description="Entries of the log that it has not got yet.")
    restarts: int
    bytes_on_disk: int | None


class Stats(BaseModel):
    """The state of the index in numbers (docs/index.md)."""

    items: int
    deleted: int
    n_features: int | None
    n_bits: int
    learner: str
    metric: str
    dtype: str
    labels: bool
    theta: float | str | None = Field(description="null for 2 % of the quality that the table has.")
    interval: int
    version: int | None
    decisions: int
    updates: int
    rehashing: bool
    paused: bool
    rehash_error: str | None
    learning_error: str | None
    warning: str | None = Field(description="What to know of the codes: that they tell items hardly apart.")
    codes_sampled: int | None = Field(default=None, description="Rows that the next two numbers were counted on.")
    codes_distinct: int | None = None
    bit_entropy: float | None = Field(default=None, description="Mean over bits: 1 where each halves the rows.")
    write_error: str | None = Field(description="Why decisions wait in memory: the disk is full, for one.")
    bytes_on_disk: int
    sqlite: str = Field(description="The version of the SQLite library (docs/format.md).")
    shards: list[Shard] = Field(default=[], description="Of an index on Ray only.")
    seen: int
    behind: int = Field(description="Rows that are stored and were not learned from yet.")
    uptime_s: float
    rates: Rates
    options: dict[str, Any]
    note: str | None = Field(description="What to know of who feeds the index, in the demo.")


class Decision(BaseModel):
    """A decision of the trigger; qualities and gain in bits of mutual information."""

    number: int
    kind: str
    seen: int
    accepted: bool
    gain: float | None
    current: float | None
    snapshot: float | None
    reason: str
    at: str
    status: str | None
    items: int | None
    seconds: float | None


class History(BaseModel):
    """Decisions, the oldest first."""

    decisions: list[Decision]


class Check(BaseModel):
    """A decision as a point of a chart; ``theta`` is what the gain had to exceed, in bits."""

    number: int
    kind: str
    seen: int
    current: float | None
    snapshot: float | None
    theta: float | str | None
    accepted: bool
    reason: str
    at: str


class Quality(BaseModel):
    """Checks, the oldest first."""

    points: list[Check]


class Published(BaseModel):
    """A version that has answered queries, and what it took to make."""

    number: int
    kind: str | None
    seen: int | None
    items: int
    seconds: float
    at: str


class Versions(BaseModel):
    """Versions, the oldest first."""

    versions: list[Published]


class Distances(BaseModel):
    """Shares of neighbours and of others at each distance, on the reservoir under one mapping."""

    version: int | None
    n_bits: int
    neighbors: list[float]
    others: list[float]
    information: float
    sample: int


class Status(BaseModel):
    """Whether the service is there."""

    status: str


class State(BaseModel):
    """What a command to the index has led to."""

    version: int | None
    rehashing: bool
    paused: bool
