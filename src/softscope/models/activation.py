"""The non-linearity in front of the classifier, and features taken before it (X8)."""

from dataclasses import dataclass

from ..errors import SoftscopeError
from ..torch_door import nn, torch

ACTIVATIONS = (
    nn.ReLU,
    nn.ReLU6,
    nn.LeakyReLU,
    nn.PReLU,
    nn.ELU,
    nn.SELU,
    nn.CELU,
    nn.GELU,
    nn.SiLU,
    nn.Mish,
    nn.Softplus,
    nn.Tanh,
    nn.Sigmoid,
    nn.Hardswish,
    nn.Hardtanh,
)


@dataclass
class Calls:
    """Inputs of the watched activation modules in the order they were called in one forward pass."""

    seen: list[tuple[str, nn.Module, torch.Tensor]]

    def watch(self, name: str, module: nn.Module) -> torch.utils.hooks.RemovableHandle:
        """Record each input of `module`, copied: an activation may work in place."""
        return module.register_forward_pre_hook(
            lambda module, inputs: self.seen.append((name, module, inputs[0].clone()))
        )


def watch_activations(model: nn.Module) -> tuple[Calls, list[torch.utils.hooks.RemovableHandle]]:
    """Watch every activation module of `model`."""
    calls = Calls([])
    named = [(name, module) for name, module in model.named_modules() if isinstance(module, ACTIVATIONS)]
    return calls, [calls.watch(name, module) for name, module in named]


def last_activation(calls: Calls, z: torch.Tensor) -> tuple[int, str]:
    """Number (from the end, -1 is the last) and name of the activation call whose result is `z`, pooled or not."""
    for number in range(-1, -len(calls.seen) - 1, -1):
        name, module, before = calls.seen[number]
        made = _rows(module(before.clone()), z.shape)
        if made is not None and _close(made, z):
            return number, f"{name} ({type(module).__name__})"
    names = ", ".join(f"{name} ({type(module).__name__})" for name, module, _ in calls.seen[-5:]) or "none"
    raise SoftscopeError(
        f"no activation module makes the features that feed the classifier (the last ones called: {names})",
        "Functions such as F.relu can't be seen: use nn.ReLU, or take the features after the non-linearity",
    )


def before_activation(calls: Calls, number: int, z: torch.Tensor) -> torch.Tensor:
    """The input of that activation as rows [N, H], checked: its activation must give `z`."""
    name, module, before = calls.seen[number]
    made, rows = _rows(module(before.clone()), z.shape), _rows(before, z.shape)
    if made is None or rows is None or not _close(made, z):
        raise SoftscopeError(
            f"the activation {name} applied to the features before it does not give those after it",
            "The model's path differs between batches: take the features after the non-linearity",
        )
    return rows


def _rows(values: torch.Tensor, shape: torch.Size) -> torch.Tensor | None:
    """`values` as [N, H]: as they are, flattened, or a map [N, H, ...] averaged over its positions."""
    if values.shape[0] != shape[0]:
        return None
    if values.numel() == shape.numel():
        return values.reshape(shape)
    if values.ndim > 2 and values.shape[1] == shape[1]:
        return values.flatten(2).mean(2)
    return None


def _close(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    scale = float(expected.abs().max())
    return bool((actual - expected).abs().max() <= 1e-4 * max(scale, 1e-30))
