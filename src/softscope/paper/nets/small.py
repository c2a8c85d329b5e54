"""A conv net for 8x8 images: what `softscope demo` trains on scikit-learn's digits."""

from ...models.preprocessing import Normalise
from ...torch_door import nn
from .base import Net, activation_module


class Small(Net):
    """8x8x1 -> 32 conv 3x3 -> 64 conv 3x3 -> fc H -> softmax K, the activation (relu or tanh) after each.

    On digits 0-7 (1,009 images, 30 epochs) it takes a few seconds; the command is `softscope demo`.
    """

    name = "small"

    def __init__(self, *, features: int = 64, classes: int = 10, activation: str = "relu") -> None:
        def act() -> nn.Module:
            return activation_module(activation)

        body = nn.Sequential(
            *(nn.Conv2d(1, 32, 3), act(), nn.Conv2d(32, 64, 3), act()),
            *(nn.Flatten(), nn.Linear(64 * 4 * 4, features), act()),
        )
        config = {"features": features, "classes": classes, "activation": activation}
        super().__init__(Normalise(1), body, input_shape=(8, 8, 1), features=features, config=config)
