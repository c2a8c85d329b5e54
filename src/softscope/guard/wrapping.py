"""A guard inside a torch model: logits, uncertainty, p and alarm in one forward pass."""

from typing import Any, NamedTuple

import numpy as np

from ..errors import SoftscopeError
from ..torch_door import nn, torch
from .formulas import alarms, decision_constants, p_values
from .guard import Guard
from .reference_formulas import plan_of

_WEIGHTS = "Fit the guard on features of this very model (softscope extract), after its last training step"


class Guarded(NamedTuple):
    """What a guarded model returns for a batch of N inputs."""

    logits: torch.Tensor
    uncertainty: torch.Tensor
    p: torch.Tensor
    alarm: torch.Tensor


class GuardedModel(nn.Module):
    """`model`, and what `guard` says of each of its answers; a hook on the last layer reads the features on their way.

    Scores are computed in float64 (float32 where the device has no other). Scores that differ from a calibration score
    by 1e-6 of their size count as equal to it, on the side of fewer alarms. A row that can't be scored is an alarm.
    """

    def __init__(self, guard: Guard, model: nn.Module) -> None:
        super().__init__()
        plan = plan_of(guard.estimator)
        self.model = model
        self._formula = plan.formula
        self._per_class = guard.per_class
        constants = plan.constants | decision_constants(guard)
        self._names = list(constants)
        for name, value in constants.items():
            self.register_buffer(f"guard_{name}", torch.from_numpy(np.array(value)), persistent=False)
        self._seen: list[torch.Tensor] = []
        layer = _layer_of(guard, model)
        layer.register_forward_hook(self._hook)

    def _hook(self, layer: nn.Module, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        self._seen.append(inputs[0])
        self._seen.append(output)

    def forward(self, *inputs: Any, **named: Any) -> Guarded:
        """The model's logits [N, K] of a batch, and uncertainty, p-value and alarm [N] of each."""
        self._seen.clear()
        answer = self.model(*inputs, **named)
        z, logits = _one_row_each(self._seen[-2], self._seen[-1], answer)
        self._seen.clear()
        constants = {name: getattr(self, f"guard_{name}") for name in self._names}
        wide = constants["calibration"].dtype
        with torch.no_grad():
            scores = self._formula(z.to(wide), logits.to(wide), constants)
            groups = logits.argmax(1) if self._per_class else torch.zeros_like(logits[:, 0], dtype=torch.int64)
            p = p_values(scores, groups, constants)
            alarm = alarms(p, groups, constants) | ~torch.isfinite(scores)
        return Guarded(logits, scores, p, alarm)

    def _apply(self, function: Any, recurse: bool = True) -> "GuardedModel":
        """Moves between devices keep the guard's float64, where there is one: half precision is for the model alone."""
        kept = {name: getattr(self, f"guard_{name}") for name in self._names}
        super()._apply(function, recurse)  # type: ignore[no-untyped-call]
        for name, before in kept.items():
            device = getattr(self, f"guard_{name}").device
            dtype = torch.float32 if device.type == "mps" else before.dtype
            setattr(self, f"guard_{name}", before.to(device=device, dtype=dtype))
        return self


def _layer_of(guard: Guard, model: nn.Module) -> nn.Module:
    """The layer of `model` that has the weights of the guard's head."""
    head = guard.head
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if not isinstance(module, nn.Linear | nn.Conv2d) or not isinstance(weight, torch.Tensor):
            continue
        matrix = weight.detach().flatten(1).float().cpu().numpy()
        if matrix.shape == head.weight.shape and np.allclose(matrix, head.weight, rtol=1e-3, atol=1e-6):
            return module
    raise SoftscopeError(
        f"{type(model).__name__}: no layer has the weights {head.n_classes} x {head.n_features} of the guard's head",
        _WEIGHTS,
    )


def _one_row_each(z: torch.Tensor, logits: torch.Tensor, answer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Features [N, H] and logits [N, K] of what the last layer saw and gave.

    Maps [N, H, height, width] are averaged over their places. Of a sequence [N, T, H] it is the row ([CLS], the last
    word, any) or the mean of all rows that the model's answer was made from: the one whose softmax is nearest to the
    answer's, which may be logits or a softmax itself.
    """
    if z.ndim == 2:
        return z, logits
    if z.ndim == 4:
        return z.mean((2, 3)), logits.mean((2, 3))
    whole = _answer(answer)
    if z.ndim != 3 or whole is None or whole.shape != (logits.shape[0], logits.shape[2]):
        raise SoftscopeError(
            f"the last layer sees a tensor of shape {tuple(z.shape)}, expected one row, or a sequence, for each answer",
            "Wrap the model in a module whose last layer sees one row per input",
        )
    rows, made = (torch.cat([values.mean(1, keepdim=True), values], 1) for values in (z, logits))
    softmax, said = made.softmax(2), whole[:, None]
    apart = torch.minimum((softmax - said.softmax(2)).abs().amax(2), (softmax - said).abs().amax(2))
    place = apart.argmin(1)
    every = torch.arange(len(place), device=place.device)
    return rows[every, place], made[every, place]


def _answer(output: Any) -> torch.Tensor | None:
    """The logits in what a model returned: a tensor, the first of several, or `logits` of a Hugging Face model."""
    first = output[0] if isinstance(output, tuple | list) else getattr(output, "logits", output)
    return first if isinstance(first, torch.Tensor) else None
