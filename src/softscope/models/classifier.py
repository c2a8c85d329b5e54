"""Which layer of a torch model is the classifier: the linear layer whose output is the logits.

timm's `get_classifier()` is asked first. Otherwise a probe batch shows which linear layer's output is the model's own
answer; without a probe, the model's graph does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import SoftscopeError
from ..files import first_line
from ..torch_door import evaluating, nn, torch

_THROUGH = (nn.Identity, nn.Dropout, nn.Flatten, nn.Softmax, nn.LogSoftmax)
_THROUGH_NAMES = ("softmax", "log_softmax", "flatten", "squeeze", "dropout", "view", "reshape", "float", "contiguous")
_HINT = (
    "Only a linear last layer has the geometry of the paper: a 1x1 convolution, scaled or normalised logits and shared "
    "layers must be rewritten as one nn.Linear, or name the layer by a method get_classifier()"
)


@dataclass(frozen=True)
class Classifier:
    """The last layer, its name in the model, and how the model's answer follows from its output."""

    name: str
    layer: nn.Linear
    link: str = "logits"


_LINKS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "logits": lambda logits: logits,
    "softmax": lambda logits: logits.softmax(1),
    "log_softmax": lambda logits: logits.log_softmax(1),
}


def answer(output: Any) -> torch.Tensor:
    """The tensor [N, K] in what a model returned: itself, or its `logits` as in Hugging Face's models."""
    found = getattr(output, "logits", output)
    if isinstance(found, torch.Tensor) and found.ndim == 2:
        return found
    kind = f"a tensor of shape {tuple(found.shape)}" if isinstance(found, torch.Tensor) else type(found).__name__
    raise SoftscopeError(
        f"the model returned {kind}, expected logits [N, K]", "Wrap it in a module whose forward returns the logits"
    )


def find_classifier(model: nn.Module, probe: torch.Tensor | None = None) -> Classifier:
    """The linear layer that makes the logits, or a SoftscopeError that lists the candidates."""
    named = _by_interface(model)
    if named is not None and probe is None:
        return named
    linear = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    if not linear:
        raise SoftscopeError(f"{type(model).__name__} has no nn.Linear layer", _HINT)
    if probe is None:
        return _by_graph(model, linear)
    return _by_probe(model, {named.name: named.layer} if named else linear, probe)


def _by_interface(model: nn.Module) -> Classifier | None:
    getter = getattr(model, "get_classifier", None)
    layer = getter() if callable(getter) else None
    if not isinstance(layer, nn.Linear):
        return None
    names = [name for name, module in model.named_modules() if module is layer]
    return Classifier(names[0] if names else "get_classifier()", layer)


def _by_probe(model: nn.Module, linear: dict[str, nn.Linear], probe: torch.Tensor) -> Classifier:
    outputs: dict[str, list[torch.Tensor]] = {name: [] for name in linear}
    hooks = [
        layer.register_forward_hook(lambda module, inputs, output, name=name: outputs[name].append(output))
        for name, layer in linear.items()
    ]
    try:
        with evaluating(model):
            result = answer(model(probe))
    finally:
        for hook in hooks:
            hook.remove()
    if not bool(torch.isfinite(result).all()):
        raise SoftscopeError(f"{type(model).__name__} answers NaN or inf", "Check its weights and its inputs")
    matches = [
        Classifier(name, linear[name], link)
        for name, made in outputs.items()
        for link, apply in _LINKS.items()
        if made and made[-1].shape == result.shape and torch.allclose(apply(made[-1]), result, rtol=1e-4, atol=1e-6)
    ]
    if len({id(match.layer) for match in matches}) == 1:
        return matches[0]
    return _refuse(model, {m.name: m.layer for m in matches} or linear, "several make" if matches else "none makes")


def _by_graph(model: nn.Module, linear: dict[str, nn.Linear]) -> Classifier:
    try:
        graph = torch.fx.symbolic_trace(model).graph
    except Exception as error:  # a model may refuse to be traced in any way it likes
        if len(linear) == 1:
            name, layer = next(iter(linear.items()))
            return Classifier(name, layer)
        return _refuse(model, linear, f"its graph can't be traced ({first_line(error)[:80]}), so any could make")
    node: Any = next(node for node in graph.nodes if node.op == "output").args[0]
    while isinstance(node, torch.fx.Node):
        if node.op == "call_module" and str(node.target) in linear:
            return Classifier(str(node.target), linear[str(node.target)])
        if not _passes_through(model, node):
            break
        node = node.args[0]
    return _refuse(model, linear, "none is the last step that makes")


def _passes_through(model: nn.Module, node: "torch.fx.Node") -> bool:
    if not node.args:
        return False
    if node.op == "call_module":
        return isinstance(model.get_submodule(str(node.target)), _THROUGH)
    return getattr(node.target, "__name__", str(node.target)).lstrip("_") in _THROUGH_NAMES


def _refuse(model: nn.Module, linear: dict[str, nn.Linear], why: str) -> Classifier:
    listed = ", ".join(f"{name} ({layer.in_features} -> {layer.out_features})" for name, layer in linear.items())
    raise SoftscopeError(f"{type(model).__name__}: of its linear layers {why} the model's answer: {listed}", _HINT)
