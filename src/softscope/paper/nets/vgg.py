"""VGG-style networks of one to four blocks (X7)."""

from ...errors import SoftscopeError
from ...models.preprocessing import Normalise
from ...torch_door import nn
from .base import Net

WIDTHS = (32, 64, 128, 128)


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
            steps += [
                nn.Conv2d(before, width, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(width, width, 3, padding=1),
                nn.ReLU(),
            ]
            steps += [nn.MaxPool2d(2), nn.BatchNorm2d(width)]
            before = width
        flat = before * (size >> blocks) ** 2
        body = nn.Sequential(*steps, nn.Flatten(), nn.Dropout(dropout), nn.Linear(flat, features), nn.ReLU())
        config = {"blocks": blocks, "features": features, "classes": classes, "dropout": dropout}
        config |= {"size": size, "channels": channels}
        shape = (size, size, channels)
        super().__init__(Normalise(channels), body, input_shape=shape, features=features, config=config)
