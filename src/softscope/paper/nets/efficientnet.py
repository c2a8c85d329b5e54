"""EfficientNet-Lite (X10, X3): the EfficientNets without squeeze-and-excitation, ReLU6 in place of swish."""

import math
from dataclasses import dataclass

from ...errors import SoftscopeError
from ...torch_door import nn, torch
from .base import Net, Normalise

FEATURES = 1280


@dataclass(frozen=True)
class Variant:
    """How a network differs from Lite0: channels times `width`, blocks times `depth`; `size` pixels a side."""

    width: float
    depth: float
    size: int


VARIANTS = {"lite0": Variant(1.0, 1.0, 224), "lite1": Variant(1.0, 1.1, 240), "lite2": Variant(1.1, 1.2, 260)}

# Blocks, kernel, stride, expansion, channels of each stage of Lite0.
_STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
           (1, 3, 1, 6, 320))  # fmt: skip
_STEM = 32
_EPSILON = 1e-3


class EfficientNetLite(Net):
    """Stem, inverted residual blocks in seven stages, 1x1 conv to H = 1280, ReLU6, mean over positions, softmax K.

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
        for number, (blocks, kernel, stride, expansion, channels) in enumerate(_STAGES):
            # The first and the last stage have one block in every variant.
            repeats = blocks if number in (0, len(_STAGES) - 1) else math.ceil(blocks * shape.depth)
            width = rounded(channels * shape.width)
            for repeat in range(repeats):
                steps.append(InvertedResidual(before, width, kernel, 1 if repeat else stride, expansion))
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

    def __init__(self, before: int, width: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = before * expansion
        steps: list[nn.Module] = [] if expansion == 1 else [_conv(before, wide, 1)]
        steps.append(_conv(wide, wide, kernel, stride=stride, groups=wide))
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
        kernel, stride = self.kernel_size[0], self.stride[0]
        return max((math.ceil(length / stride) - 1) * stride + kernel - length, 0)


def rounded(channels: float, divisor: int = 8) -> int:
    """The nearest multiple of `divisor`, but never less than 90 % of `channels`."""
    nearest = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return nearest + divisor if nearest < 0.9 * channels else nearest


def _conv(before: int, width: int, kernel: int, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, batch norm, ReLU6."""
    if stride == 1:
        conv: nn.Conv2d = nn.Conv2d(before, width, kernel, padding=kernel // 2, groups=groups, bias=False)
    else:
        conv = SameConv(before, width, kernel, stride=stride, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(width, eps=_EPSILON), nn.ReLU6())
