"""How each method is trained in Setting 2, and what one run of it is called."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ...errors import InvalidInput, UnknownName


@dataclass(frozen=True)
class Recipe:
    """How a network is trained; what only some methods have is None for the others.

    Attributes
    ----------
    network, width
        The network's name, and how wide it is.
    epochs, warm_up_epochs
        How often to go through the data in all, and how often of these as a classifier. All methods have the same
        epochs; each has as many of them for warming up as suited it best.
    batch_size, momentum, weight_decay, shift, cutout
        Of the training and its augmentation.
    warm_up_rate, learning_rate
        The learning rate as a classifier, and that of the hashing loss.
    scale, n_bins, memory
        MIHash: A of the relaxed codes, K of the histograms as a share of b, and how many earlier codes are kept.
    gain, quantization, margin
        DPSH and DTSH: what logits are multiplied by, and the weight of the quantisation error; DTSH: the margin as
        a share of b.
    """

    learning_rate: float
    network: str = "resnet"
    width: int = 64
    epochs: int = 30
    warm_up_epochs: int = 8
    batch_size: int = 512
    momentum: float = 0.9
    weight_decay: float = 5e-4
    shift: int = 4
    cutout: int = 8
    warm_up_rate: float = 0.2
    scale: float | None = None
    n_bins: float | None = None
    memory: int = 0
    gain: float = 1.0
    quantization: float | None = None
    margin: float | None = None

    def with_arguments(self, arguments: Mapping[str, Any]) -> "Recipe":
        """Return the recipe with other values; what it does not have is refused.

        Examples
        --------
        >>> RECIPES["mihash"].with_arguments({"width": 8}).width
        8
        """
        unknown = sorted(set(arguments) - {field.name for field in fields(self)})
        if unknown:
            known = ", ".join(field.name for field in fields(self))
            raise UnknownName(f"There is no setting {unknown[0]!r}; known: {known}.")
        return replace(self, **arguments)

    def changed(self, settings: Sequence[str]) -> "Recipe":
        """Return the recipe with settings like ``learning_rate=0.1`` taken over.

        Examples
        --------
        >>> RECIPES["dpsh"].changed(["width=8", "quantization=0.5"]).width
        8
        """
        types = {field.name: field.type for field in fields(self)}
        changes: dict[str, Any] = {}
        for setting in settings:
            name, _, text = setting.partition("=")
            if name not in types:
                raise UnknownName(f"There is no setting {name!r}; known: {', '.join(types)}.")
            try:
                changes[name] = text if types[name] is str else int(text) if types[name] is int else float(text)
            except ValueError:
                raise InvalidInput(f"`{name}` must be a number; got {text!r}.") from None
        return replace(self, **changes)


RECIPES = {
    "mihash": Recipe(learning_rate=0.2, warm_up_epochs=23, scale=3.0, n_bins=0.5),
    "dpsh": Recipe(learning_rate=0.2, quantization=0.1),
    "dtsh": Recipe(learning_rate=0.35, quantization=0.1, margin=0.25),
}


@dataclass(frozen=True)
class Training:
    """A method at a code length with a seed.

    Examples
    --------
    >>> Training("mihash", 32, 0, RECIPES["mihash"]).name
    'setting2-mihash-32-0'
    """

    method: str
    n_bits: int
    seed: int
    recipe: Recipe
    tag: str = ""
    validate: bool = False

    @property
    def name(self) -> str:
        """What its files are called."""
        parts = ["setting2", self.method, str(self.n_bits), str(self.seed)]
        return "-".join(parts + ["validation"] * self.validate + [self.tag] * bool(self.tag))
