"""Networks of residual blocks: ResNet18 (X9, X13), EfficientNet-Lite (X10, X3) and a small transformer (X14)."""

import math
from dataclasses import dataclass

from ...errors import SoftscopeError
from ...torch_door import nn, torch
from .base import Net, Normalise


class ResNet18(Net):
    """The official ResNet18 with a 3x3 stride-1 first convolution, the max-pool kept: H = 512, softmax K, ReLU.

    For 32x32 images.

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
            steps += [ResidualBlock(before, after, stride=1 if after == width else 2), ResidualBlock(after, after)]
            before = after
        body = nn.Sequential(*steps, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        config = {"classes": classes, "channels": channels, "width": width}
        shape = (None, None, channels)
        super().__init__(Normalise(channels), body, input_shape=shape, features=before, config=config)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class ResidualBlock(nn.Module):
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


FEATURES = 1280


@dataclass(frozen=True)
class Variant:
    """How a network differs from Lite0: channels times `width`, blocks times `depth`; `size` pixels a side."""

    width: float
    depth: float
    size: int


VARIANTS = {"lite0": Variant(1.0, 1.0, 224), "lite1": Variant(1.0, 1.1, 240), "lite2": Variant(1.1, 1.2, 260)}

# Blocks, side of the window, stride, expansion, channels of each stage of Lite0.
_STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
           (1, 3, 1, 6, 320))  # fmt: skip
_STEM = 32
_EPSILON = 1e-3


class EfficientNetLite(Net):
    """EfficientNet without squeeze-and-excitation, ReLU6 in place of swish.

    Stem, inverted residual blocks in seven stages, 1x1 conv to H = 1280, ReLU6, mean over positions, softmax K.

    The first step is (x - 127) / 128, as the published weights expect. Lite1 stands in for the paper's EfficientNetB1,
    which has the same blocks with squeeze-and-excitation and swish. Batch norms keep torch's momentum of 0.1, since
    the original's 0.01 would lag behind in short trainings; dropout and stochastic depth are left out.
    """

    name = "efficientnet_lite"
    channels_last = True

    def __init__(self, *, classes: int = 1000, variant: str = "lite1") -> None:
        if variant not in VARIANTS:
            raise SoftscopeError(f"no EfficientNet-Lite is called {variant!r}", f"Choose one of {', '.join(VARIANTS)}")
        shape = VARIANTS[variant]
        steps: list[nn.Module] = [_conv(3, _STEM, 3, stride=2)]
        before = _STEM
        for number, (blocks, side, stride, expansion, channels) in enumerate(_STAGES):
            # The first and the last stage have one block in every variant.
            repeats = blocks if number in (0, len(_STAGES) - 1) else math.ceil(blocks * shape.depth)
            width = rounded(channels * shape.width)
            for repeat in range(repeats):
                steps.append(InvertedResidual(before, width, side, 1 if repeat else stride, expansion))
                before = width
        body = nn.Sequential(*steps, _conv(before, FEATURES, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        first = Normalise(3)
        first.mean.fill_(127.0)
        first.std.fill_(128.0)
        config = {"classes": classes, "variant": variant}
        super().__init__(first, body, input_shape=(None, None, 3), features=FEATURES, config=config)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                fan_out = module.kernel_size[0] * module.kernel_size[1] * module.out_channels // module.groups
                nn.init.normal_(module.weight, std=math.sqrt(2 / fan_out))


class InvertedResidual(nn.Module):
    """1x1 conv to `expansion` times the channels, depthwise conv, 1x1 conv back; plus x where the shape is kept."""

    def __init__(self, before: int, width: int, side: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = before * expansion
        steps: list[nn.Module] = [] if expansion == 1 else [_conv(before, wide, 1)]
        steps.append(_conv(wide, wide, side, stride=stride, groups=wide))
        project = nn.Sequential(nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width, eps=_EPSILON))
        self.steps = nn.Sequential(*steps, project)
        self.shortcut = stride == 1 and before == width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.steps(x)
        return out + x if self.shortcut else out


class SameConv(nn.Conv2d):
    """A convolution whose output has ceil(n / stride) positions, an odd pixel of padding to the right and below.

    That is TensorFlow's rule, under which the weights were trained; torch's own padding is symmetric.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        down, right = (self._missing(n) for n in x.shape[-2:])
        if down or right:
            x = nn.functional.pad(x, (right // 2, right - right // 2, down // 2, down - down // 2))
        return super().forward(x)

    def _missing(self, length: int) -> int:
        side, stride = self.kernel_size[0], self.stride[0]
        return max((math.ceil(length / stride) - 1) * stride + side - length, 0)


def rounded(channels: float, divisor: int = 8) -> int:
    """The nearest multiple of `divisor`, but never less than 90 % of `channels`."""
    nearest = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return nearest + divisor if nearest < 0.9 * channels else nearest


def _conv(before: int, width: int, side: int, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, batch norm, ReLU6."""
    if stride == 1:
        conv: nn.Conv2d = nn.Conv2d(before, width, side, padding=side // 2, groups=groups, bias=False)
    else:
        conv = SameConv(before, width, side, stride=stride, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(width, eps=_EPSILON), nn.ReLU6())


class SmallViT(Net):
    """A small vision transformer (X14), the network here whose features pass through no ReLU.

    32x32xC -> 4 convolutions 3x3 -> 4x4 tokens -> `depth` blocks -> LayerNorm -> mean -> softmax K.

    A compact convolutional transformer: convolutions (strides 1, 2, 2, 2, each with batchnorm and GELU) stand in for
    the patch embedding. z, the mean of the tokens after the last LayerNorm, takes both signs.
    """

    name = "vit"
    channels_last = True

    def __init__(
        self,
        *,
        features: int = 128,
        depth: int = 3,
        heads: int = 4,
        classes: int = 10,
        channels: int = 3,
        size: int = 32,
    ) -> None:
        if size < 8 or size % 8:
            raise SoftscopeError(f"vit: images of {size} pixels", "Use a multiple of 8")
        stem = nn.Sequential(
            *_convolution(channels, 24, stride=1),
            *_convolution(24, 64, stride=2),
            *_convolution(64, 128, stride=2),
            *_convolution(128, features, stride=2),
        )
        blocks = [AttentionBlock(features, heads) for _ in range(depth)]
        body = nn.Sequential(stem, Tokens(features, (size // 8) ** 2), *blocks, nn.LayerNorm(features), TokenMean())
        config = {"features": features, "depth": depth, "heads": heads, "classes": classes, "channels": channels}
        config["size"] = size
        shape = (size, size, channels)
        super().__init__(Normalise(channels), body, input_shape=shape, features=features, config=config)


def _convolution(before: int, width: int, stride: int) -> list[nn.Module]:
    return [nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.GELU()]


class Tokens(nn.Module):
    """Maps [N, D, h, w] -> tokens [N, h w, D], a learnt position added to each."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.empty(1, count, width))
        nn.init.trunc_normal_(self.position, std=0.02)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        return maps.flatten(2).transpose(1, 2) + self.position


class AttentionBlock(nn.Module):
    """x + attention(LayerNorm(x)), then x + fc(GELU(fc(LayerNorm(x)))) with twice the width inside."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, count, width = x.shape
        parts = self.qkv(self.before(x)).reshape(n, count, 3, self.heads, width // self.heads)
        query, key, value = (part.transpose(1, 2) for part in parts.unbind(2))
        seen = nn.functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(seen.transpose(1, 2).reshape(n, count, width))
        out: torch.Tensor = x + self.mlp(x)
        return out


class TokenMean(nn.Module):
    """The mean of an image's tokens."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens.mean(1)
