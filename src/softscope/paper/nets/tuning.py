"""The last modules of a network trained by themselves, on what the modules before them gave (X10)."""

from typing import Self

from ...errors import SoftscopeError
from ...torch_door import nn, torch
from .base import Net

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


class Tuner(nn.Module):
    """A view of `net` that takes what its last `tail` body modules see (None: images), and trains only these.

    Batch norms keep the means and variances they came with, as is usual where few images are at hand; their scales and
    offsets are trained. The network's last layer is trained in any case.
    """

    def __init__(self, net: Net, tail: int | None) -> None:
        super().__init__()
        self.net, self.tail = net, tail
        net.requires_grad_(False)
        for module in (net.body if tail is None else _modules(net, tail)[-tail:], net.classifier):
            module.requires_grad_(True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net.forward_head(through_tail(self.net, x, self.tail))

    def get_classifier(self) -> nn.Linear:
        """The last layer."""
        return self.net.classifier

    def train(self, mode: bool = True) -> Self:
        """Training mode for everything but batch norms."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, _NORMS):
                module.eval()
        return self

    def trained_state(self) -> dict[str, torch.Tensor]:
        """The tensors that training changes, by their name in the network."""
        return {name: value.detach() for name, value in self.net.named_parameters() if value.requires_grad}


def into_tail(net: Net, x: torch.Tensor, tail: int | None) -> torch.Tensor:
    """What the last `tail` modules of the body see of images `x`; the images themselves where `tail` is None."""
    return x if tail is None else _modules(net, tail)[:-tail](net.prepare(x))


def through_tail(net: Net, x: torch.Tensor, tail: int | None) -> torch.Tensor:
    """z, from what `into_tail` gave."""
    if tail is None:
        return net.forward_features(x)
    order = torch.channels_last if net.channels_last and x.ndim == 4 else torch.contiguous_format
    z: torch.Tensor = _modules(net, tail)[-tail:](x.contiguous(memory_format=order))
    return z


def _modules(net: Net, tail: int) -> nn.Sequential:
    if not isinstance(net.body, nn.Sequential) or not 0 < tail < len(net.body):
        raise SoftscopeError(f"{net.name}: has no last {tail} modules to train", "Train all of it: tail None")
    return net.body
