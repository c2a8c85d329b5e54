"""The 2-D toy network (X1a)."""

from ...models.preprocessing import Normalise
from ...torch_door import nn
from .base import Net


class Toy(Net):
    """x in R^2 -> 16 fc -> 16 fc -> softmax K, ReLU (fig_2d a; 50 epochs in the paper). Takes raw coordinates.

    Trains in a second: X1a has its accuracy.
    """

    name = "toy"

    def __init__(self, *, features: int = 16, classes: int = 3) -> None:
        body = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, features), nn.ReLU())
        config = {"features": features, "classes": classes}
        super().__init__(Normalise(2, std=1.0), body, input_shape=(2,), features=features, config=config)
