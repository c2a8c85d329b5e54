"""A small vision transformer for 32x32 images (X14): the network here whose features pass through no ReLU."""

from ...errors import SoftscopeError
from ...torch_door import nn, torch
from .base import Net, Normalise


class SmallViT(Net):
    """32x32xC -> 4 convolutions 3x3 -> 4x4 tokens -> `depth` blocks -> LayerNorm -> mean -> softmax K.

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
        blocks = [Block(features, heads) for _ in range(depth)]
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


class Block(nn.Module):
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
