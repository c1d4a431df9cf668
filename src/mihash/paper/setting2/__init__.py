"""Setting 2 of Table 1: CIFAR-10 end to end, 50,000 images to learn from and search, 10,000 queries (Sec. 4.3.2).

``mihash reproduce table1-setting2 --scale full --device cuda --data DIR`` trains every method at every code length
and seed. So does ::

    python -m mihash.paper.setting2 --device cuda --data DIR --out DIR

which keeps the codes of each run, and also chooses parameters; ``measured/`` holds what it
gave. The paper fine-tunes a VGG-F that was trained on ImageNet; here a residual network
starts from nothing: it is first trained for some epochs as a classifier on its codes, then with the hashing loss.
Network, budget, augmentation and seed are the same for all methods, which differ in the loss, its learning rate,
and how much of the budget the classifier has. Codes average the logits of an image and its mirror image.
Parameters are chosen with ``--validate``, which never looks at the test images: 5,000 of the training images query
the others.
"""

from .recipes import RECIPES, Recipe, Training
from .scoring import score
from .training import train

__all__ = ["RECIPES", "Recipe", "Training", "score", "train"]
