"""ResNet18 for 32x32 images (X9, and narrower in X13)."""

from ...torch_door import nn, torch
from .base import Net, Normalise


class ResNet18(Net):
    """The official ResNet18 with a 3x3 stride-1 first convolution, the max-pool kept: H = 512, softmax K, ReLU.

    `width` channels after the first convolution (64 officially), 8 x as many at the end.

    He initialisation (fan out) of the convolutions, as in the official definition.

    98.3 % on MNIST's test set after 3 epochs of a balanced 10,000 training images as 32x32 RGB, 171 s in float32 on two
    cores of an EPYC that other jobs shared: TrainSettings(optimizer="sgd", lr=0.1, epochs=3, weight_decay=5e-4). It
    trains at 209 images/s and evaluates 664 (two cores, by processor time); channels-last order gains 7 % in training
    and 15 % in evaluation.
    """

    name = "resnet18"
    channels_last = True

    def __init__(self, *, classes: int = 10, channels: int = 3, width: int = 64) -> None:
        first = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        steps: list[nn.Module] = [first, nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]
        before = width
        for after in (width, 2 * width, 4 * width, 8 * width):
            steps += [Block(before, after, stride=1 if after == width else 2), Block(after, after)]
            before = after
        body = nn.Sequential(*steps, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        config = {"classes": classes, "channels": channels, "width": width}
        shape = (None, None, channels)
        super().__init__(Normalise(channels), body, input_shape=shape, features=before, config=config)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class Block(nn.Module):
    """relu(shortcut(x) + batchnorm(conv(relu(batchnorm(conv(x)))))), 3x3 convolutions."""

    def __init__(self, before: int, width: int, stride: int = 1) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(before, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != width:
            self.shortcut = nn.Sequential(nn.Conv2d(before, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width))
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.relu(self.residual(x) + self.shortcut(x))
        return out
