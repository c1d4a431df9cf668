"""Deep hashing: the mutual-information loss for PyTorch, its rivals, networks and a trainer (Sec. 4.3.2).

The only room that imports torch: ``pip install 'mihash[deep]'``.
"""

try:
    import torch as _torch  # noqa: F401 -- is it there?
except ImportError:
    raise ImportError("mihash.deep needs PyTorch: pip install 'mihash[deep]'.") from None

from . import tensors
from .augmentation import Augmentation
from .classification import ClassificationLoss
from .device import device_name, torch_version
from .dpsh import DPSH, DPSHLoss
from .dtsh import DTSH, DTSHLoss
from .epochs import Epoch, HeldOut
from .loss import MutualInformationLoss
from .module_mapping import ModuleMapping
from .networks import HashNetwork, build_network, network_names, register_network
from .resnet import resnet
from .schedule import Schedule
from .trainer import Trainer
from .vdsh import VDSH
from .vggf import vggf

__all__ = [
    "DPSH",
    "DTSH",
    "VDSH",
    "Augmentation",
    "ClassificationLoss",
    "DPSHLoss",
    "DTSHLoss",
    "Epoch",
    "HashNetwork",
    "HeldOut",
    "ModuleMapping",
    "MutualInformationLoss",
    "Schedule",
    "Trainer",
    "build_network",
    "device_name",
    "network_names",
    "register_network",
    "resnet",
    "tensors",
    "torch_version",
    "vggf",
]
