"""The paper's simple networks: the 2-D toy (X1a), LeNet (X1b, X3 to X5), the filter's net (X6), VGG blocks (X7)."""

from ...errors import SoftscopeError
from ...torch_door import nn
from .base import Net, Normalise, activation_of

WIDTHS = (32, 64, 128, 128)
_FILTER_FEATURES = {1: 16 * 3 * 3, 2: 32 * 2 * 2, 3: 64}


class Toy(Net):
    """x in R^2 -> 16 fc -> 16 fc -> softmax K, ReLU (fig_2d a; 50 epochs in the paper). Takes raw coordinates.

    Trains in a second: X1a has its accuracy.
    """

    name = "toy"

    def __init__(self, *, features: int = 16, classes: int = 3) -> None:
        body = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, features), nn.ReLU())
        config = {"features": features, "classes": classes}
        super().__init__(Normalise(2, std=1.0), body, input_shape=(2,), features=features, config=config)


class Small(Net):
    """8x8x1 -> 32 conv 3x3 -> 64 conv 3x3 -> fc H -> softmax K, the activation (relu or tanh) after each.

    On scikit-learn's digits 0-7 (1,009 images, 30 epochs) training takes a few seconds.
    """

    name = "small"

    def __init__(self, *, features: int = 64, classes: int = 10, activation: str = "relu") -> None:
        act = activation_of(activation)
        body = nn.Sequential(
            *(nn.Conv2d(1, 32, 3), act(), nn.Conv2d(32, 64, 3), act()),
            *(nn.Flatten(), nn.Linear(64 * 4 * 4, features), act()),
        )
        config = {"features": features, "classes": classes, "activation": activation}
        super().__init__(Normalise(1), body, input_shape=(8, 8, 1), features=features, config=config)


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
        act = activation_of(activation)
        body = nn.Sequential(
            *(nn.Conv2d(1, 32, 5), act()),
            *(nn.Conv2d(32, 64, 3), act(), nn.MaxPool2d(2)),
            *(nn.Conv2d(64, 128, 3), act(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(128 * 4 * 4, features), act()),
        )
        config = {"features": features, "classes": classes, "activation": activation}
        super().__init__(Normalise(1), body, input_shape=(28, 28, 1), features=features, config=config)


class FilterNet(Net):
    """9x9 -> 16 conv 3x3 -> 32 conv 3x3 -> pool 2 -> 64 conv 2x2 -> softmax K, ReLU (fig_noise; 15 epochs).

    Takes bits, 0.0 and 1.0, as they are. `conv_layers` 2 or 1 leave out the last convolutions, the pooling stays: the
    same scan with less depth.

    93.4 % on MNIST's test set as 9x9 bits (`binarise9`) after 15 epochs of TrainSettings(), 104 s on two busy cores.
    """

    name = "filter"

    def __init__(self, *, classes: int = 10, conv_layers: int = 3) -> None:
        if conv_layers not in _FILTER_FEATURES:
            raise SoftscopeError(f"filter: {conv_layers} convolutions", "Choose 1, 2 or 3")
        steps: list[nn.Module] = [nn.Conv2d(1, 16, 3), nn.ReLU()]
        if conv_layers >= 2:
            steps += [nn.Conv2d(16, 32, 3), nn.ReLU()]
        steps += [nn.MaxPool2d(2)]
        if conv_layers >= 3:
            steps += [nn.Conv2d(32, 64, 2), nn.ReLU()]
        body = nn.Sequential(*steps, nn.Flatten())
        config, features = {"classes": classes, "conv_layers": conv_layers}, _FILTER_FEATURES[conv_layers]
        super().__init__(Normalise(1, std=1.0), body, input_shape=(9, 9, 1), features=features, config=config)


class VGG(Net):
    """`blocks` x (conv 3x3 -> conv 3x3 -> pool 2 -> batchnorm) -> dropout -> fc 512 -> softmax K.

    Widths 32, 64, 128, 128; convolutions are "same"; ReLU follows each of them and the fc layer. The paper does not
    state the dropout rate; ours is 0.5.

    Four blocks reach 99.5 % on MNIST's test set in 2 epochs and 84 s (bfloat16, two cores of an EPYC that other jobs
    shared): TrainSettings(optimizer="sgd", lr=0.1, epochs=2, weight_decay=5e-4). A training step runs 1,000 images/s in
    float32 and 1,690 in bfloat16, evaluation 2,900 (two cores, by processor time).
    """

    name = "vgg"
    channels_last = True

    def __init__(
        self,
        *,
        blocks: int = 4,
        features: int = 512,
        classes: int = 10,
        dropout: float = 0.5,
        size: int = 28,
        channels: int = 1,
    ) -> None:
        if not 1 <= blocks <= len(WIDTHS) or size >> blocks < 1:
            raise SoftscopeError(
                f"vgg: {blocks} blocks on {size} x {size} pixels", "Use 1 to 4 blocks, size >= 2^blocks"
            )
        steps: list[nn.Module] = []
        before = channels
        for width in WIDTHS[:blocks]:
            steps += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU()]
            steps += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.BatchNorm2d(width)]
            before = width
        flat = before * (size >> blocks) ** 2
        body = nn.Sequential(*steps, nn.Flatten(), nn.Dropout(dropout), nn.Linear(flat, features), nn.ReLU())
        config = {"blocks": blocks, "features": features, "classes": classes, "dropout": dropout}
        config |= {"size": size, "channels": channels}
        shape = (size, size, channels)
        super().__init__(Normalise(channels), body, input_shape=shape, features=features, config=config)
