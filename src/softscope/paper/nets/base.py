"""What the paper's networks share: normalisation first, a linear layer last, timm's interface, training of the tail."""

from typing import Any, ClassVar, Self

import numpy as np

from ...arrays import as_matrix, as_vector
from ...errors import SoftscopeError
from ...torch_door import nn, torch


class Normalise(nn.Module):
    """(x - mean) / std over the last axis, kept as buffers so that a saved network takes raw pixels.

    The default for images is x / 255; `fit` takes mean and standard deviation of each channel from training images.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, channels: int, std: float = 255.0) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.full((channels,), std))

    def fit(self, images: Any) -> None:
        """Take mean and std of each channel from `images` [N, ..., C]; a constant channel gets std 1."""
        channels = self.mean.numel()
        values = np.asarray(images)
        axes = tuple(range(values.ndim - 1 if values.shape[-1] == channels else values.ndim))
        mean = values.mean(axis=axes, dtype=np.float64).reshape(-1)
        std = values.std(axis=axes, dtype=np.float64).reshape(-1)
        self.mean.copy_(torch.from_numpy(mean))
        self.std.copy_(torch.from_numpy(np.where(std > 0, std, 1.0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.to(self.mean.dtype) - self.mean) / self.std


class Net(nn.Module):
    """A classifier whose features feed one linear layer: logits = W z + b.

    Batches come as [N, height, width, channels] (the channel axis may be missing where there is one), uint8 or float
    on the same scale. `config` holds the constructor's arguments, enough to build the same network again.
    """

    name: ClassVar[str]
    # Whether activations in channels-last order make this network faster; measured, see each network's docstring.
    channels_last: ClassVar[bool] = False
    classifier: nn.Linear

    def __init__(
        self,
        normalise: Normalise,
        body: nn.Module,
        *,
        input_shape: tuple[int | None, ...],
        features: int,
        config: dict[str, Any],
    ) -> None:
        super().__init__()
        self.normalise = normalise
        self.body = body
        self.input_shape = input_shape
        self.config = config
        self.classifier = nn.Linear(features, config["classes"])

    def forward_features(self, x: torch.Tensor) -> torch.Tensor:
        """z [N, H], the features that feed the last layer, after the non-linearity."""
        z: torch.Tensor = self.body(self.prepare(x))
        return z

    def forward_head(self, z: torch.Tensor, pre_logits: bool = False) -> torch.Tensor:
        """Logits of features, or with `pre_logits` the features themselves."""
        logits: torch.Tensor = z if pre_logits else self.classifier(z)
        return logits

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.forward_head(self.forward_features(x))

    def get_classifier(self) -> nn.Linear:
        """The last layer."""
        return self.classifier

    def replace_classifier(self, weight: Any, bias: Any = None, *, trainable: bool = False) -> None:
        """Put `weight` [K, H] and `bias` [K] (None: a layer without bias) in the last layer's place, frozen by default.

        X4 fixes the last layer in one of its structures this way and trains the rest.
        """
        classes, features = self.classifier.weight.shape
        matrix = as_matrix(np.asarray(weight), "weight", columns=features, owner=f"the last layer of {self.name}")
        if len(matrix) != classes:
            raise SoftscopeError(
                f"weight: has {len(matrix)} rows, {self.name} has {classes} classes", "One row a class"
            )
        layer = nn.Linear(features, classes, bias=bias is not None)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(matrix.astype(np.float32)))
            if bias is not None:
                vector = as_vector(np.asarray(bias), "bias", length=classes)
                layer.bias.copy_(torch.from_numpy(vector.astype(np.float32)))
        self.classifier = layer.to(self.classifier.weight.device).requires_grad_(trainable)

    def prepare(self, x: torch.Tensor) -> torch.Tensor:
        """A batch as the body takes it: checked, normalised, channels before height and width."""
        if x.ndim == len(self.input_shape) and self.input_shape[-1] == 1:
            x = x.unsqueeze(-1)
        expected = self.input_shape
        if x.ndim != len(expected) + 1 or any(e is not None and e != n for e, n in zip(expected, x.shape[1:])):
            sizes = " x ".join("any" if e is None else str(e) for e in expected)
            raise SoftscopeError(
                f"{self.name}: expected a batch of {sizes}, found {tuple(x.shape)}",
                "Batches are [N, height, width, channels]",
            )
        x = self.normalise(x)
        if len(expected) == 3:
            x = x.movedim(-1, 1)
            x = x.contiguous(memory_format=torch.channels_last if self.channels_last else torch.contiguous_format)
        return x


def in_memory_order(net: nn.Module) -> Any:
    """`net` with its weights in the order of its activations, channels last where it says so."""
    if getattr(net, "channels_last", False):
        return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return net


def activation_of(name: str) -> type[nn.Module]:
    """The class of the non-linearity called `name`."""
    if name not in ("relu", "tanh"):
        raise SoftscopeError(f"no activation is called {name!r}", "Choose relu or tanh")
    return nn.ReLU if name == "relu" else nn.Tanh


_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


class Tuner(nn.Module):
    """The last modules of a network trained by themselves, on what the modules before them gave (X10).

    A view of `net` that takes what its last `tail` body modules see (None: images), and trains only these.

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
