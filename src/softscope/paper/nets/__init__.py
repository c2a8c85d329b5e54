"""The paper's networks: built by name, saved and loaded with everything needed to use them.

    net = build("lenet", features=16, classes=3, seed=0)
    net(batch)                 # logits of uint8 images [N, 28, 28, 1]
    net.forward_features(batch)  # z, what the last layer sees

torch is imported when a network is first built.
"""

from typing import TYPE_CHECKING, Any

from ...errors import SoftscopeError
from ...lazy import lazily

if TYPE_CHECKING:
    from .base import Net as Net
    from .base import Tuner as Tuner
    from .base import in_memory_order as in_memory_order
    from .base import into_tail as into_tail
    from .base import through_tail as through_tail
    from .residual import EfficientNetLite as EfficientNetLite
    from .residual import ResNet18 as ResNet18
    from .residual import SmallViT as SmallViT
    from .saving import SavedModel as SavedModel
    from .saving import load_model as load_model
    from .saving import open_saved as open_saved
    from .saving import save_model as save_model
    from .simple import VGG as VGG
    from .simple import FilterNet as FilterNet
    from .simple import LeNet as LeNet
    from .simple import Small as Small
    from .simple import Toy as Toy

NETS = {
    "toy": "Toy",
    "small": "Small",
    "lenet": "LeNet",
    "filter": "FilterNet",
    "vgg": "VGG",
    "resnet18": "ResNet18",
    "efficientnet_lite": "EfficientNetLite",
    "vit": "SmallViT",
}

_HOMES = {
    "base": ("Net", "Tuner", "in_memory_order", "into_tail", "through_tail"),
    "simple": ("FilterNet", "LeNet", "Small", "Toy", "VGG"),
    "residual": ("EfficientNetLite", "ResNet18", "SmallViT"),
    "saving": ("SavedModel", "load_model", "open_saved", "save_model"),
}
__getattr__ = lazily(__name__, _HOMES)

__all__ = ["NETS", "build", *(name for names in _HOMES.values() for name in names)]


def build(name: str, *, seed: int = 0, **config: Any) -> "Net":
    """A new network of the register `NETS`, its first weights drawn from `seed`.

    >>> net = build("lenet", features=16, classes=3, seed=0)
    >>> net.input_shape
    (28, 28, 1)
    """
    if name not in NETS:
        raise SoftscopeError(f"{name!r}: not a network", f"Choose one of {', '.join(NETS)}")
    from ...torch_door import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            net: Net = __getattr__(NETS[name])(**config)
        except TypeError as error:
            raise SoftscopeError(f"{name}: {error}", "See the constructor's arguments in its docstring") from error
    return net
