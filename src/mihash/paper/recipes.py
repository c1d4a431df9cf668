"""How a network is trained for each method in Setting 2 of Table 1 (Sec. 4.3.2).

The paper fine-tunes a VGG-F that was trained on ImageNet; here a residual network starts from random weights: it
is first trained for some epochs as a classifier on its codes, then with the hashing loss. ``mihash-joint`` adds a
classification term to the loss instead, and ``classifier`` is a classifier from the first epoch to the last, whose
signs are the codes. Network, budget, augmentation and seed are the same for all methods, which differ in the loss,
its learning rate, and how much of the budget the classifier has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ..errors import UnknownName


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
    classification
        MIHash: the weight of the classification term of its loss.
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
    classification: float = 0.0
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


N_TRIALS = 8  # how many settings of each method were tried on validation images, see measured/README.md
IN_ALL = {  # and in all rounds, those before it counted
    "mihash": "42",
    "mihash-joint": "10 or more",
    "classifier": "9 or more",
    "dpsh": "19",
    "dtsh": "21",
}

RECIPES = {
    "mihash": Recipe(learning_rate=0.2, warm_up_epochs=23, scale=3.0, n_bins=0.5),
    "mihash-joint": Recipe(learning_rate=0.5, warm_up_epochs=0, scale=3.0, n_bins=0.5, classification=0.5),
    "classifier": Recipe(learning_rate=0.1, warm_up_epochs=0, scale=3.0),
    "dpsh": Recipe(learning_rate=0.2, warm_up_epochs=23, quantization=0.1),
    "dtsh": Recipe(learning_rate=0.2, quantization=0.1, margin=0.25),
}
