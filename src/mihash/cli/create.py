"""The command that creates an index."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import NewFolder, Ray, Seed
from .output import say
from .program import command

if TYPE_CHECKING:
    from ..store.window import Keep

_PANEL = "An index"


@command(_PANEL, "mihash create photos --bits 64 --metric cosine --parameter replay=5")
def create(
    path: NewFolder,
    bits: Annotated[
        int | None,
        typer.Option(help="Code length.", show_default="64 or more, by the first rows (docs/choosing.md)"),
    ] = None,
    learner: Annotated[
        str | None,
        typer.Option(
            help="adapthash, hcoh, hmoh, lsh, mihash, momenthash, okh, osh, randomrotation, refit or sketchhash.",
            show_default="momenthash; randomrotation for rows of more than 64 numbers without labels "
            "(docs/choosing.md)",
        ),
    ] = None,
    metric: Annotated[str, typer.Option(help="The distance: euclidean, cosine or ip.")] = "euclidean",
    theta: Annotated[
        float | None,
        typer.Option(
            help="Rehash when the gain in bits of mutual information exceeds this, instead of --price; 'inf' for "
            "no rehash.",
            show_default="a price",
        ),
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(help="What a rehash costs, in perfectly answered queries.", show_default="20"),
    ] = None,
    interval: Annotated[int | None, typer.Option(help="Rows between two decisions.", show_default="100")] = None,
    reservoir_size: Annotated[int, typer.Option(help="Rows in the sample that quality is measured on.")] = 2000,
    dtype: Annotated[
        str, typer.Option(help="How vectors are stored: float32, or float16 for half the space.")
    ] = "float32",
    keep: Annotated[
        str | None,
        typer.Option(
            help="Keep only the newest NUMBER items, or those of a span such as 30d (field 'time'), or FIELD=30d.",
            show_default="all",
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--drift/--no-drift", help="Detect that the stream has changed, and follow it.")
    ] = True,
    factors: Annotated[
        bool | None,
        typer.Option(
            "--factors/--no-factors",
            help="Store two more bytes with each code (docs/search.md).",
            show_default="yes, unless there are labels or the index is on Ray",
        ),
    ] = None,
    raw: Annotated[bool, typer.Option("--no-normalize", help="Do not centre and scale the features.")] = False,
    seed: Seed = 0,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A parameter of the learner, such as replay=5 or rank=256 of momenthash (docs/choosing.md); may "
            "be repeated. The code length is then 64 unless --bits gives another.",
        ),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(help="Create an index on Ray with this many shards.", show_default="an index in PATH"),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --shards, a node by its address or a resource, or as NAME=FOLDER; may be repeated.",
            show_default="all nodes, and PATH on each",
        ),
    ] = None,
    ray: Ray = None,
) -> None:
    """Create an empty index: a folder, or with --shards the coordinator of an index on Ray (docs/scale.md)."""
    from ..errors import InvalidInput
    from ..index.online_index import OnlineIndex
    from ..index.options import Options
    from ..store.backends import Cluster
    from ..trigger import PriceUpdate, TriggerUpdate

    if theta is not None and price is not None:
        raise InvalidInput("Give --theta or --price, not both: they belong to different triggers.")
    each = 100 if interval is None else interval
    rule = PriceUpdate(20 if price is None else price, each) if theta is None else TriggerUpdate(theta, each)
    if shards is None and (node or ray is not None):
        raise InvalidInput("--ray and --node are for an index on Ray: give its number of shards with --shards.")
    window = None if keep is None else _parse_keep(keep)
    given: dict[str, Any] = {} if bits is None else {"n_bits": bits}
    if learner is not None:
        given["learner"] = learner
    made = Options(seed=seed, parameters=_parse_parameters(parameter or []), **given)
    chosen = bits is None and not parameter
    index = OnlineIndex.create(
        path,
        learner=learner if chosen else made.make_learner(),
        trigger=None if theta is None and price is None and interval is None else rule,
        drift=watch,
        metric=metric,
        normalize=not raw,
        reservoir_size=reservoir_size,
        dtype=dtype,
        factors=factors,
        seed=seed,
        cluster=None if shards is None else Cluster(shards, _parse_nodes(node or []), ray),
    )
    with index:
        if window is not None:
            index.set_window(window)
    how = "" if chosen else f" of {made.n_bits} bits"
    how += "" if learner is None and chosen else f" with {made.learner}"
    say(f"Made an index{how} in {path}. Next: mihash add {path} FILE")


def _parse_keep(text: str) -> "Keep":
    """Return which items to keep from a number, a span, or FIELD=SPAN; raise if it is none of them."""
    from ..store.window import Window

    field, equals, span = text.partition("=")
    keep: Keep = {field: span} if equals else int(text) if text.isdecimal() else text
    Window.of(keep)
    return keep


def _parse_parameters(texts: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a learner from texts of the form NAME=VALUE."""
    from ..errors import InvalidInput

    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--parameter must be NAME=VALUE; got {text!r}.")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _parse_nodes(texts: Sequence[str]) -> list[str] | dict[str, str] | None:
    """Return nodes, with folders if texts have the form NAME=FOLDER."""
    from ..errors import InvalidInput

    pairs = [text.partition("=") for text in texts]
    if len({equals for _, equals, _ in pairs}) > 1:
        raise InvalidInput("Give all --node a folder, as NAME=FOLDER, or none of them.")
    if any(equals for _, equals, _ in pairs):
        return {name: folder for name, _, folder in pairs}
    return list(texts) or None
