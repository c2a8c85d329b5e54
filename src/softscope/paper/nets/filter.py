"""The small network whose whole input space is scanned (X6)."""

from ...errors import SoftscopeError
from ...models.preprocessing import Normalise
from ...torch_door import nn
from .base import Net

_FEATURES = {1: 16 * 3 * 3, 2: 32 * 2 * 2, 3: 64}


class FilterNet(Net):
    """9x9 -> 16 conv 3x3 -> 32 conv 3x3 -> pool 2 -> 64 conv 2x2 -> softmax K, ReLU (fig_noise; 15 epochs).

    Takes bits, 0.0 and 1.0, as they are. `conv_layers` 2 or 1 leave out the last convolutions, the pooling stays: the
    same scan with less depth.

    93.4 % on MNIST's test set as 9x9 bits (`binarise9`) after 15 epochs of TrainSettings(), 104 s on two busy cores.
    """

    name = "filter"

    def __init__(self, *, classes: int = 10, conv_layers: int = 3) -> None:
        if conv_layers not in _FEATURES:
            raise SoftscopeError(f"filter: {conv_layers} convolutions", "Choose 1, 2 or 3")
        steps: list[nn.Module] = [nn.Conv2d(1, 16, 3), nn.ReLU()]
        if conv_layers >= 2:
            steps += [nn.Conv2d(16, 32, 3), nn.ReLU()]
        steps += [nn.MaxPool2d(2)]
        if conv_layers >= 3:
            steps += [nn.Conv2d(32, 64, 2), nn.ReLU()]
        body = nn.Sequential(*steps, nn.Flatten())
        super().__init__(
            Normalise(1, std=1.0),
            body,
            input_shape=(9, 9, 1),
            features=_FEATURES[conv_layers],
            config={"classes": classes, "conv_layers": conv_layers},
        )
