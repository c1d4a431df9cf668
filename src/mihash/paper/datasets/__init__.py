"""Data sets: loaders, seeded generators, splits and the protocols of the paper (Sec. 4.1).

This room stands apart: experiments, the demo and the command line use it, and it imports nothing above
``neighbors``. It loads neither SciPy, scikit-learn, h5py nor pyarrow until a data set that needs them is asked
for.
"""

from .catalog import STAND_INS, dataset_names, digits, open_dataset
from .cifar10 import Images, cifar10_images
from .dataset import Dataset, normalize
from .dataset_files import has_labels, load
from .generators import Synthetic, cifar10_like, labelme_like, places205_like
from .protocols import PROTOCOLS, Protocol, find_protocol, protocol_for
from .splits import Split, checkpoints, draw_split

__all__ = [
    "PROTOCOLS",
    "STAND_INS",
    "Dataset",
    "Images",
    "Protocol",
    "Split",
    "Synthetic",
    "checkpoints",
    "cifar10_images",
    "cifar10_like",
    "dataset_names",
    "digits",
    "draw_split",
    "find_protocol",
    "has_labels",
    "labelme_like",
    "load",
    "normalize",
    "open_dataset",
    "places205_like",
    "protocol_for",
]
