"""The paper's LeNet (X1b, X3, X4, X5)."""

from ...models.preprocessing import Normalise
from ...torch_door import nn
from .base import Net, activation_module


class LeNet(Net):
    """28x28x1 -> 32 conv 5x5 -> 64 conv 3x3 -> pool 2 -> 128 conv 3x3 -> pool 2 -> fc H -> softmax K.

    Convolutions are "valid", pooling takes the maximum, and the activation (relu, or tanh for X3) follows each
    convolution and the fc layer.

    Reaches 99.2 % on MNIST's test set in 2 epochs, on two cores of an EPYC (AVX-512 with bfloat16) that other jobs
    shared: 62 s and 94 processor seconds in bfloat16, 97 s and 158 with precision="float32":

        mnist = load("mnist", "train")
        settings = TrainSettings(optimizer="sgd", lr=0.1, epochs=2)
        train(build("lenet", features=64), mnist.images, mnist.labels, settings)

    A training step runs 1,630 images/s in float32, evaluation 5,600 (two cores, by processor time).
    """

    name = "lenet"
    channels_last = True

    def __init__(self, *, features: int = 16, classes: int = 10, activation: str = "relu") -> None:
        def act() -> nn.Module:
            return activation_module(activation)

        body = nn.Sequential(
            *(nn.Conv2d(1, 32, 5), act()),
            *(nn.Conv2d(32, 64, 3), act(), nn.MaxPool2d(2)),
            *(nn.Conv2d(64, 128, 3), act(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(128 * 4 * 4, features), act()),
        )
        config = {"features": features, "classes": classes, "activation": activation}
        super().__init__(Normalise(1), body, input_shape=(28, 28, 1), features=features, config=config)
