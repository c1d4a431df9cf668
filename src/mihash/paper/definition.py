"""What an experiment is: a table or figure of the paper as a small TOML file, checked when it is read.

A definition names data sets, methods, code lengths, thresholds and intervals; `Definition.jobs` yields one job for
each combination and trial.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from .. import validation
from ..batch import lacking, method_class, method_names
from ..errors import InvalidInput, UnknownName
from ..online import learner_class
from .jobs import Job
from .learning_pass import AREAS
from .parameters import PARAMETERS, check_arguments, read_toml, tuned_arguments
from .recipes import RECIPES
from .results import root_and_seed
from .sources import DATASETS, IMAGES, Source, check_dataset, find_source, is_file, needs_folder

DEFINITIONS = PARAMETERS.parent
_DRAWS = {
    "online": ("curves", "methods", "thetas", "intervals", "times", "reservoirs", "learners", "missing"),
    "correlation": ("correlation",),
    "distributions": ("distributions",),
    "batch": ("lengths", "training"),
    "images": ("end-to-end",),
}
_OF_TRIGGERS = ("thetas", "fixed", "intervals", "reservoirs", "missing", "auc", "ends")
_OF_FITS = ("n_features", "once", "scales")
_OF_RUNS = ("bits", *_OF_TRIGGERS, "trials", "parameters", *_OF_FITS)
_NOT_OBEYED = {
    "online": ("n_features", "once"),
    "correlation": ("methods", *_OF_RUNS),
    "distributions": tuple(key for key in _OF_RUNS if key != "parameters"),
    "batch": _OF_TRIGGERS,
    "images": (*_OF_TRIGGERS, "n_features", "once"),
}
_AT_A_SCALE = ("bits", "trials", "n_features", "parameters")
_SEVERAL = ("curves", "methods", "times", "reservoirs")
_NO_KEYS = ("name", "validate", "typed", "data")
_STUDY_BITS = 32  # of the studies without a trigger


@dataclass(frozen=True)
class Definition:
    """A table or a figure.

    Attributes
    ----------
    name
        The file's name without its ending.
    title
        What it shows, for a person.
    kind
        ``"online"``: streams under triggers; ``"correlation"``: MI against ranking measures on random mappings;
        ``"distributions"``: distances before and after learning; ``"batch"``: batch methods fitted to part of the
        stream; ``"images"``: networks trained end to end.
    draws
        What is made of the results: ``"curves"``, ``"methods"`` (the table of curves alone), ``"thetas"``,
        ``"intervals"``, ``"times"``, ``"reservoirs"``, ``"missing"`` (by missing labels), ``"learners"`` and
        ``"lengths"`` (mAP by code length), ``"correlation"``, ``"distributions"``, ``"training"`` (its time) or
        ``"end-to-end"``.
    datasets, methods, bits
        What is run; a method that needs labels is left out where there are none. A data set is one of the paper's
        three, or the path of a file, which is used whole at every scale.
    thetas
        Thresholds of the trigger.
    fixed
        Whether the fixed rate is run too.
    intervals
        Update intervals in units of the protocol's.
    reservoirs
        Reservoir sizes in units of the protocol's.
    missing
        Shares of the labels that are missing, at random.
    trials
        How many random divisions and orders.
    auc
        How the area under a curve is taken: ``"mean"`` over the checkpoints, as in the paper, or ``"trapezoid"``.
    ends
        Whether tables are also updated after the first block and the last example, whatever the trigger says.
    parameters
        Arguments of methods, by method, that come before those that were tuned. A batch method, or one
        that draws ``"curves"``, ``"methods"``, ``"times"`` or ``"reservoirs"``, may have a list of them, and is
        run with each. The text "none" stands for None.
    once
        Methods that are fitted in the first trial alone, for what they cost.
    n_features
        To how many dimensions batch methods have their features brought; 0 leaves them alone.
    notes
        What to write below its table at full scale.
    scales
        What is else at a scale: `bits`, `trials`, `n_features`, and arguments of methods in `parameters`.
    validate
        Whether networks are measured on a part of the training images, to choose parameters.
    typed
        The words after ``mihash reproduce`` that run it; empty for its name.
    data
        The folder of features that was given, which the command for missing results names.
    """

    name: str
    title: str
    kind: str
    draws: str
    datasets: tuple[str, ...] = DATASETS
    methods: tuple[str, ...] = ()
    bits: tuple[int, ...] = (32,)
    thetas: tuple[float, ...] = (0.0,)
    fixed: bool = True
    intervals: tuple[float, ...] = (1.0,)
    reservoirs: tuple[float, ...] = (1.0,)
    missing: tuple[float, ...] = (0.0,)
    trials: int = 3
    auc: str = "mean"
    ends: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)
    once: tuple[str, ...] = ()
    n_features: int = 0
    notes: tuple[str, ...] = ()
    scales: dict[str, dict[str, Any]] = field(default_factory=dict)
    validate: bool = False
    typed: tuple[str, ...] = field(default=(), compare=False)
    data: Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Check every value."""
        if not isinstance(self.title, str) or not self.title.strip():
            raise InvalidInput(f"`title` must be a text; got {self.title!r}.")
        validation.choice("kind", self.kind, tuple(_DRAWS))
        validation.choice(f"draws` of the kind `{self.kind}", self.draws, _DRAWS[self.kind])
        for key in ("fixed", "ends"):
            if not isinstance(getattr(self, key), bool):
                raise InvalidInput(f"`{key}` must be true or false; got {getattr(self, key)!r}.")
        validation.integer("trials", self.trials, minimum=1)
        validation.choice("auc", self.auc, AREAS)
        validation.integer("n_features", self.n_features, minimum=0)
        self._check_lists()
        if not isinstance(self.parameters, dict):
            raise InvalidInput(f"`parameters` must be a table for each method; got {self.parameters!r}.")
        for key, methods in (("parameters", tuple(self.parameters)), ("once", self.once)):
            for method in methods:
                if method not in self.methods:
                    known = ", ".join(self.methods)
                    raise InvalidInput(f"`{key}` must be of the methods {known}; got some of {method!r}.")
        for method in self.parameters:
            for arguments, n_bits in product(self._settings(method), self.bits):
                check_arguments(method, n_bits, arguments, self.kind)
        self._check_scales()

    def _check_scales(self) -> None:
        if not isinstance(self.scales, dict) or not all(isinstance(each, dict) for each in self.scales.values()):
            raise InvalidInput(f"`scales` must be a table for each scale; got {self.scales!r}.")
        for scale, changes in self.scales.items():
            unknown = sorted(set(changes) - set(_AT_A_SCALE))
            if unknown:
                raise InvalidInput(
                    f"`scales.{scale}` must be of {', '.join(_AT_A_SCALE)}; got {', '.join(unknown)}."
                )
            self.at(scale)

    @property
    def _several(self) -> bool:
        """Whether a method may have several sets of arguments."""
        return self.kind == "batch" or self.draws in _SEVERAL

    def _settings(self, method: str) -> list[dict[str, Any]]:
        """Return the sets of arguments that a method is run with."""
        given = self.parameters.get(method, {})
        return given if isinstance(given, list) and self._several else [given]

    def at(self, scale: str) -> "Definition":
        """Return the definition as it is run at a scale.

        Examples
        --------
        >>> load_definition("table1").at("smoke").bits, load_definition("table1").at("full").bits
        ((12, 24), (12, 24, 32, 48))
        """
        changes = dict(self.scales.get(scale, {}))
        if not changes:
            return self
        more = changes.pop("parameters", {})
        given: dict[str, Any] = {
            method: [arguments | more.get(method, {}) for arguments in self._settings(method)]
            for method in {**self.parameters, **more}
        }
        if not self._several:
            given = {method: arguments for method, (arguments,) in given.items()}
        lists: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in changes.items()
        }
        return replace(self, parameters=given, scales={}, **lists)

    def _check_lists(self) -> None:
        for key in (
            "datasets",
            "methods",
            "bits",
            "thetas",
            "intervals",
            "reservoirs",
            "missing",
            "once",
            "notes",
        ):
            if not isinstance(getattr(self, key), tuple | list):
                raise InvalidInput(f"`{key}` must be a list; got {getattr(self, key)!r}.")
        for key in ("datasets", *(["methods"] if self.kind != "correlation" else [])):
            if not getattr(self, key):
                raise InvalidInput(f"`{key}` must not be empty for the kind {self.kind!r}; name at least one.")
        for name in self.datasets:
            check_dataset(name)
        for note in self.notes:
            if not isinstance(note, str):
                raise InvalidInput(f"`notes` must be texts; got {note!r}.")
        for name in self.methods:
            if not isinstance(name, str):
                raise InvalidInput(f"`methods` must be names of learners; got {name!r}.")
            if self.kind == "images":
                validation.choice("methods", name, tuple(RECIPES))
            elif self.kind != "batch":
                learner_class(name)
            elif name not in method_names():
                method_class(name)  # which says so
        for n_bits in self.bits:
            validation.integer("bits", n_bits, minimum=1)
        for theta in self.thetas:
            validation.number("thetas", theta, finite=False)
        for value in (*self.intervals, *self.reservoirs):
            validation.number("intervals and reservoirs", value, above=0)
        for share in self.missing:
            if validation.number("missing", share, minimum=0) >= 1:
                raise InvalidInput(f"`missing` must leave some labels: numbers below 1; got {share!r}.")
        for key in ("methods", "bits", "thetas", "intervals", "reservoirs", "missing"):
            values = getattr(self, key)
            if len(set(values)) < len(values):
                raise InvalidInput(f"`{key}` must not name a value twice; got {list(values)}.")

    @property
    def sources(self) -> tuple[Source, ...]:
        """The data sets, each once; files are read for it."""
        return tuple({source.name: source for source in map(find_source, self.datasets)}.values())

    @property
    def cases(self) -> tuple[tuple[Source, str], ...]:
        """The pairs of data set and method that can be run: none without the labels that a method needs."""
        return tuple(
            (source, method)
            for source, method in product(self.sources, self.methods)
            if source.has_labels or not self._needs_labels(method)
        )

    def _needs_labels(self, method: str) -> bool:
        if self.kind == "images":
            return True
        if self.kind != "batch":
            return learner_class(method).needs_labels
        return lacking(method) is not None or method_class(method).needs_labels

    def on(self, datasets: Sequence[str]) -> "Definition":
        """Return the same experiment on other data sets, which its title then names.

        Examples
        --------
        >>> print(load_definition("table4").on(["labelme", "data/mine.npz"]).title)
        Table 4: theta on CIFAR-10, 32 bits; here on labelme, mine.npz
        """
        names = ", ".join(Path(name).name for name in datasets)
        return replace(
            self,
            datasets=tuple(datasets),
            title=f"{self.title}; here on {names}",
            typed=(*(self.typed or (self.name,)), *(word for name in datasets for word in ("--dataset", name))),
        )

    def command(self, results: Path, scale: str) -> str:
        """Return what to type for its results.

        The seed is that of the folder, which `mihash.paper.results.seeded` named after it.

        Examples
        --------
        >>> load_definition("table4").command(Path("results"), "small")
        'mihash reproduce table4 --scale small'
        >>> load_definition("table4").on(["mine.npz"]).command(Path("/tmp/r"), "own")
        'mihash reproduce table4 --dataset mine.npz --results /tmp/r'
        >>> load_definition("table4").command(Path("results/seed-3"), "small")
        'mihash reproduce table4 --scale small --seed 3'
        """
        only_files = all(map(is_file, self.datasets))
        return reproduce_command(self.typed or (self.name,), results, None if only_files else scale, self.data)

    def for_validation(self) -> "Definition":
        """Return the same experiment with networks measured on training images, to choose parameters."""
        return replace(self, validate=True, typed=(*(self.typed or (self.name,)), "--validate"))

    def jobs(self, scale: str = "full") -> Iterator[Job]:
        """Yield every job at a scale, each once.

        Examples
        --------
        >>> print(next(load_definition("table4").jobs()).path)
        cifar10/32-bits/okh/trial-0/fixed-rate.json
        """
        at_scale = self.at(scale)
        makers = {"online": at_scale._runs, "batch": at_scale._fits, "images": at_scale._trainings}
        return makers.get(self.kind, at_scale._studies)()

    def _runs(self) -> Iterator[Job]:
        rules: list[float | None] = [*([None] if self.fixed else []), *self.thetas]
        for (source, method), n_bits, trial in product(self.cases, self.bits, range(self.trials)):
            tuned, timed = tuned_arguments(method, source.name, n_bits), self.draws == "times"
            for settings, share, missing, every, theta in product(
                self._settings(method), self.reservoirs, self.missing, self.intervals, rules
            ):
                arguments = tuple(sorted((tuned | settings).items()))
                learned = Job(self.kind, source.name, method, arguments, n_bits, trial, share, missing=missing)
                yield replace(learned, theta=theta, every=every, timed=timed, ends=self.ends)

    def _fits(self) -> Iterator[Job]:
        for (source, method), n_bits, trial in product(self.cases, self.bits, range(self.trials)):
            if trial == 0 or method not in self.once:
                for arguments in self._settings(method):
                    chosen = tuple(sorted(arguments.items()))
                    yield Job(self.kind, source.name, method, chosen, n_bits, trial, n_features=self.n_features)

    def _trainings(self) -> Iterator[Job]:
        if IMAGES not in self.datasets:  # a file has features, and no images
            return
        for trial, n_bits, method in product(range(self.trials), self.bits, self.methods):
            chosen = tuple(sorted(self.parameters.get(method, {}).items()))
            yield Job(self.kind, IMAGES, method, chosen, n_bits, trial, validate=self.validate)

    def _studies(self) -> Iterator[Job]:
        cases = self.cases if self.methods else [(source, "") for source in self.sources]
        for source, method in cases:
            arguments = tuned_arguments(method, source.name, _STUDY_BITS) | self.parameters.get(method, {})
            yield Job(self.kind, source.name, method, tuple(sorted(arguments.items())), _STUDY_BITS)


def definition_names() -> list[str]:
    """Return the names of the experiments that come with the package."""
    return sorted(file.stem for file in DEFINITIONS.glob("*.toml") if file != PARAMETERS)


def reproduce_command(
    typed: Sequence[str], results: Path, scale: str | None = None, data: Path | None = None
) -> str:
    """Return a whole ``mihash reproduce`` command; without a scale it is one for files alone.

    At full scale it names the folder of features, unless ``MIHASH_DATA`` does.

    Examples
    --------
    >>> reproduce_command(["--all"], Path("out/seed-1"), "full", Path("features"))
    'mihash reproduce --all --scale full --data features --results out --seed 1'
    """
    words = ["mihash", "reproduce", *typed, *([] if scale is None else ["--scale", scale])]
    if scale is not None and needs_folder(scale, data):
        words += ["--data", "FOLDER" if data is None else str(data)]
    root, seed = root_and_seed(results)
    words += [] if root == Path("results") else ["--results", str(root)]
    return shlex.join(words + (["--seed", str(seed)] if seed else []))


def load_definition(path: Path | str) -> Definition:
    """Read a definition by name, or from a file; unknown keys are refused, and those that its kind does not obey.

    The path of a data file in it is taken from the folder of the definition.

    Examples
    --------
    >>> load_definition("table4").methods
    ('okh', 'osh', 'adapthash', 'sketchhash')
    """
    file = Path(path)
    if file.suffix != ".toml":
        file = DEFINITIONS / f"{path}.toml"
        if not file.exists():
            raise UnknownName(f"There is no experiment {str(path)!r}; known: {', '.join(definition_names())}.")
    values = _with_none(read_toml(file))
    known_keys = {each.name: each for each in fields(Definition) if each.name not in _NO_KEYS}
    unknown = sorted(set(values) - set(known_keys))
    if unknown:
        raise InvalidInput(
            f"{file.name} has the unknown keys {', '.join(unknown)}; known: {', '.join(known_keys)}."
        )
    missing = [
        key
        for key, each in known_keys.items()
        if each.default is MISSING and each.default_factory is MISSING and key not in values
    ]
    if missing:
        raise InvalidInput(f"{file.name} must have {', '.join(missing)}.")
    ignored = [key for key in _NOT_OBEYED.get(str(values["kind"]), ()) if key in values]
    if values["kind"] == "distributions" and values.get("trials") == 1:
        ignored.remove("trials")  # which is what it makes
    if ignored:
        keys = " or ".join(f"`{key}`" for key in ignored)
        raise InvalidInput(f"{file.name}: The kind {values['kind']!r} has no key {keys}.")
    lists: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
    }
    for key, value in lists.items():
        if isinstance(getattr(Definition, key, None), tuple) and not isinstance(value, tuple):
            raise InvalidInput(f"`{key}` in {file.name} must be a list; got {value!r}.")
    if "datasets" in lists:
        lists["datasets"] = tuple(str(file.parent / name) if is_file(name) else name for name in lists["datasets"])
    try:
        return Definition(name=file.stem, typed=(str(path),), **lists)
    except InvalidInput as error:
        raise InvalidInput(f"{file.name}: {error}") from error


def _with_none(value: Any) -> Any:
    """Return what a TOML file holds, with None for the text "none": TOML has no word for it."""
    if isinstance(value, dict):
        return {key: _with_none(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_none(inner) for inner in value]
    return None if value == "none" else value
