"""Which layer of a torch model is the last one: the linear layer whose output is the logits.

A probe, a few inputs, shows which layer's output the model's own answer follows from. Where none is given, timm's
`get_classifier()` is asked, then a probe is made from what Hugging Face's and timm's models say of their inputs, then
the model's graph is traced. Understood are nn.Linear and 1x1 convolutions, followed by a mean over positions (pooling)
or the choice of one position (a token), then by softmax, log-softmax or, for one logit, a sigmoid; and the mean of two
such layers.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ..arrays import rows_in
from ..errors import SoftscopeError, out_of_memory
from ..files import first_line
from ..torch_door import device_of, evaluating, nn, torch

_THROUGH = (nn.Identity, nn.Dropout, nn.Flatten, nn.Softmax, nn.LogSoftmax, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d)
_THROUGH_NAMES = ("softmax", "log_softmax", "flatten", "squeeze", "dropout", "view", "reshape", "float", "contiguous")
_HINT = (
    "Only a linear last layer has the geometry of the paper: rewrite scaled or normalised logits as one nn.Linear, "
    "or name the layer by a method get_classifier()"
)
_LINKS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "logits": lambda logits: logits,
    "softmax": lambda logits: logits.softmax(1),
    "log_softmax": lambda logits: logits.log_softmax(1),
    "sigmoid": lambda logits: logits.sigmoid(),
}


@dataclass(frozen=True)
class _Call:
    """One call of a candidate layer: what it saw [N, P, H] and gave [N, P, K], P positions (1 where there are none)."""

    name: str
    layer: nn.Module
    seen: torch.Tensor
    given: torch.Tensor


@dataclass(frozen=True)
class LastLayer:
    """The layer (or two, whose mean is the answer), how its positions become one row, and how the answer follows."""

    layers: dict[str, nn.Module]
    pick: str = "mean"
    link: str = "logits"

    @property
    def name(self) -> str:
        """The name in the model, those of two joined by +."""
        return "+".join(self.layers)

    def weight_and_bias(self) -> tuple[Any, Any]:
        """W [K, H] and b [K] as float32 arrays: [W1/2, W2/2] for two layers, [0, w] for one logit."""
        share = 1.0 / len(self.layers)
        parts = [_parameters(layer) for layer in self.layers.values()]
        weight = torch.cat([share * weight for weight, _ in parts], 1)
        bias = torch.stack([share * bias for _, bias in parts]).sum(0)
        if len(weight) == 1:
            weight, bias = torch.cat([0 * weight, weight]), torch.cat([0 * bias, bias])
        return weight.numpy(), bias.numpy()

    def read(self, model: nn.Module, inputs: Any, output: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Features z [N, H] and logits [N, K] of a batch.

        The logits are the model's answer where it answers logits, else the layer's output before the link.
        """
        with _recording(self.layers, rows_in(inputs)) as calls:
            answer = _run(model, inputs, output)
        latest = {call.layer: call for call in calls}
        if len(latest) < len(self.layers):
            raise SoftscopeError(
                f"the last layer {self.name} was not called with one row per input",
                "The model's path differs between batches: wrap it in a module that always takes the same one",
            )
        used = [latest[layer] for layer in self.layers.values()]
        if self.pick == "position":
            rows, place = torch.arange(len(answer)), _place(used[0], answer, self.link)
            z, made = used[0].seen[rows, place], used[0].given[rows, place]
        else:
            z = torch.cat([call.seen.mean(1) for call in used], 1)
            made = torch.stack([call.given.mean(1) for call in used]).mean(0)
        logits = answer if self.link == "logits" else made
        return z, logits if logits.shape[1] > 1 else torch.cat([0 * logits, logits], 1)


def find_last_layer(model: nn.Module, probe: Any = None, output: Any = None) -> LastLayer:
    """The layer that makes the logits, or a SoftscopeError that lists the candidates."""
    candidates = {name: module for name, module in model.named_modules() if _is_linear(module)}
    if not candidates:
        raise SoftscopeError(f"{type(model).__name__} has no nn.Linear layer and no 1x1 convolution", _HINT)
    named = _by_interface(model)
    if probe is not None:
        return _by_probe(model, named or candidates, to_device(probe, device_of(model)), output)
    if named is not None and len(named) == 1:
        return LastLayer(named)
    own = _own_probe(model)
    if own is not None:
        return _by_probe(model, named or candidates, own, output)
    return _by_graph(model, candidates)


def to_device(inputs: Any, device: torch.device, dtype: torch.dtype | None = None) -> Any:
    """Tensors, or a tuple or dict of them, on `device`, real numbers in `dtype` if given; arrays become tensors."""
    if isinstance(inputs, Mapping):
        return {name: to_device(value, device, dtype) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return tuple(to_device(value, device, dtype) for value in inputs)
    tensor = (inputs if isinstance(inputs, torch.Tensor) else torch.as_tensor(inputs)).to(device)
    return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor


def close(made: torch.Tensor, expected: torch.Tensor) -> bool:
    """Equal but for rounding: 1e-4 of the largest value, more in half precision."""
    allowed = max(1e-4, 8 * torch.finfo(made.dtype).eps)
    difference = float((made.float() - expected.float()).abs().max())
    return difference <= allowed * float(expected.float().abs().max())


def _run(model: nn.Module, inputs: Any, output: Any) -> torch.Tensor:
    """The model's answer [N, K] to `inputs`: a tensor, a tuple (several inputs) or a dict (by name)."""
    try:
        if isinstance(inputs, Mapping):
            made = model(**inputs)
        elif isinstance(inputs, tuple | list):
            made = model(*inputs)
        else:
            made = model(inputs)
    except SoftscopeError:
        raise
    except Exception as error:  # a model may fail in any way it likes
        raise _failed(model, inputs, error) from error
    return _answer_in(made, output)


def _answer_in(made: Any, output: Any) -> torch.Tensor:
    """The tensor [N, K] in what a model returned; `output` is a key, a position or a function that picks it."""
    picked = made
    if callable(output):
        picked = output(made)
    elif output is not None:
        try:
            picked = getattr(made, output) if isinstance(output, str) and hasattr(made, output) else made[output]
        except (KeyError, IndexError, TypeError) as error:
            raise SoftscopeError(f"output {output!r}: the model returned {_described(made)}", "Name one") from error
    elif not isinstance(made, torch.Tensor):
        picked = _only_matrix(made)
    if isinstance(picked, torch.Tensor) and picked.is_floating_point():
        if picked.ndim == 1:
            return picked[:, None]
        if picked.ndim == 2:
            return picked
    raise SoftscopeError(
        f"the model returned {_described(picked)}, expected logits [N, K]",
        "Say which with --logits (output=): a position such as 1, or a key",
    )


@contextmanager
def _recording(layers: Mapping[str, nn.Module], rows: int) -> Iterator[list[_Call]]:
    """Every call of `layers` that has one row (or map) per input."""
    calls: list[_Call] = []

    def record(name: str, layer: nn.Module, seen: torch.Tensor, given: torch.Tensor) -> None:
        if len(seen) == len(given) == rows and given.ndim > 1:
            calls.append(_Call(name, layer, _by_position(layer, seen), _by_position(layer, given)))

    with ExitStack() as hooks:
        for name, layer in layers.items():
            hook = layer.register_forward_hook(
                lambda module, inputs, made, name=name: record(name, module, inputs[0], made)
            )
            hooks.callback(hook.remove)
        yield calls


def _by_probe(model: nn.Module, candidates: Mapping[str, nn.Module], probe: Any, output: Any) -> LastLayer:
    with evaluating(model), _recording(candidates, rows_in(probe)) as calls:
        answer = _run(model, probe, output)
    if not bool(torch.isfinite(answer).all()):
        raise SoftscopeError(f"{type(model).__name__} answers NaN or inf", "Check its weights and its inputs")
    matches = [match for call in calls for match in _matches(call, answer)]
    if not matches:
        matches = [
            LastLayer({one.name: one.layer, other.name: other.layer})
            for one, other in combinations({call.layer: call for call in calls}.values(), 2)
            if one.given.shape[2] == other.given.shape[2] == answer.shape[1]
            and close((one.given.mean(1) + other.given.mean(1)) / 2, answer)
        ]
    if len({match.name for match in matches}) == 1:
        if matches[0].link == "sigmoid" and answer.shape[1] > 1:
            raise SoftscopeError(
                f"{type(model).__name__} answers one sigmoid per class: a multi-label model has no softmax",
                "Give a model whose classes exclude each other",
            )
        return matches[0]
    listed = {name: layer for match in matches for name, layer in match.layers.items()}
    raise _refused(model, listed or candidates, "several make" if matches else "none makes")


def _matches(call: _Call, answer: torch.Tensor) -> list[LastLayer]:
    """Each way in which the answer follows from this call."""
    if call.given.shape[2] != answer.shape[1]:
        return []
    ways = []
    for link, apply in _LINKS.items():
        if answer.shape[1] == 1 and "softmax" in link:
            continue  # always 1
        if close(apply(call.given.mean(1)), answer):
            ways.append(LastLayer({call.name: call.layer}, "mean", link))
        elif call.given.shape[1] > 1:
            chosen = call.given[torch.arange(len(answer)), _place(call, answer, link)]
            if close(apply(chosen), answer):
                ways.append(LastLayer({call.name: call.layer}, "position", link))
    return ways


def _place(call: _Call, answer: torch.Tensor, link: str) -> torch.Tensor:
    """The position of each row whose output is nearest to the answer."""
    made = torch.stack([_LINKS[link](call.given[:, place]) for place in range(call.given.shape[1])], 1)
    return (made - answer[:, None]).abs().amax(2).argmin(1)


def _by_interface(model: nn.Module) -> dict[str, nn.Module] | None:
    getter = getattr(model, "get_classifier", None)
    given = getter() if callable(getter) else None
    layers = given if isinstance(given, tuple | list) else (given,)
    if not layers or not all(_is_linear(layer) for layer in layers):
        return None
    return {name: module for name, module in model.named_modules() if any(module is layer for layer in layers)}


def _own_probe(model: nn.Module) -> Any:
    """Two inputs made from what a Hugging Face or timm model says of them, or None."""
    config, device = getattr(model, "config", None), device_of(model)
    timm = getattr(model, "pretrained_cfg", None) or {}
    if isinstance(timm, dict) and timm.get("input_size"):
        return _pattern(tuple(timm["input_size"]), device)
    name = getattr(model, "main_input_name", None)
    if config is None or not isinstance(name, str):
        return None
    if name == "pixel_values":
        config = getattr(config, "vision_config", None) or config
        side = getattr(config, "image_size", None) or 224
        sides = tuple(side) if isinstance(side, tuple | list) else (side, side)
        return {name: _pattern((getattr(config, "num_channels", None) or 3, *sides), device)}
    if name == "input_ids":
        vocabulary = int(getattr(config, "vocab_size", None) or 100)
        ids = (torch.arange(16, device=device).reshape(2, 8) + 5) % vocabulary
        if isinstance(end := getattr(config, "eos_token_id", None), int) and 0 <= end < vocabulary:
            ids[:, -1] = end  # T5 reads its answer off there
        # Models without a padding token take one row at a time.
        return {name: ids if getattr(config, "pad_token_id", None) is not None else ids[:1]}
    return {name: _pattern((16000,), device)} if name == "input_values" else None


def _pattern(shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    values = torch.arange(2 * int(torch.tensor(shape).prod()), device=device)
    return (values * 7919 % 509 / 254.5 - 1).reshape(2, *shape)


def _by_graph(model: nn.Module, candidates: Mapping[str, nn.Module]) -> LastLayer:
    try:
        graph = torch.fx.symbolic_trace(model).graph
    except Exception as error:  # a model may refuse to be traced in any way it likes
        if len(candidates) == 1:
            return LastLayer(dict(candidates))
        raise _refused(
            model, candidates, f"its graph can't be traced ({first_line(error)[:80]}), so any could make"
        ) from error
    node: Any = next(node for node in graph.nodes if node.op == "output").args[0]
    if isinstance(node, dict):
        node = node.get("logits")
    while isinstance(node, torch.fx.Node):
        if node.op == "call_module" and str(node.target) in candidates:
            return LastLayer({str(node.target): candidates[str(node.target)]})
        if not _passes_through(model, node):
            break
        node = node.args[0]
    raise _refused(model, candidates, "none is the last step that makes")


def _passes_through(model: nn.Module, node: "torch.fx.Node") -> bool:
    if not node.args:
        return False
    if node.op == "call_module":
        return isinstance(model.get_submodule(str(node.target)), _THROUGH)
    return getattr(node.target, "__name__", str(node.target)).lstrip("_") in _THROUGH_NAMES


def _is_linear(module: Any) -> bool:
    if isinstance(module, nn.Conv1d | nn.Conv2d):
        return module.groups == 1 and set(module.kernel_size) == {1} and set(module.stride) == {1}
    return isinstance(module, nn.Linear)


def _by_position(layer: nn.Module, values: torch.Tensor) -> torch.Tensor:
    """[N, P, F] of what a layer saw or gave, copied: a later step may work in place."""
    if isinstance(layer, nn.Linear):
        return values.reshape(len(values), -1, values.shape[-1]).clone()
    return values.flatten(2).transpose(1, 2).clone()


def _parameters(layer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    weight = layer.weight.detach().float().cpu().flatten(1)
    bias = torch.zeros(len(weight)) if layer.bias is None else layer.bias.detach().float().cpu()
    return weight, bias


def _only_matrix(made: Any) -> Any:
    """`.logits`, the entry "logits", or the one matrix of numbers among what a model returned."""
    if getattr(made, "logits", None) is not None:
        return made.logits
    if isinstance(made, Mapping) and "logits" in made:
        return made["logits"]
    values = list(made.values()) if isinstance(made, Mapping) else made if isinstance(made, tuple | list) else []
    tensors = [each for each in values if isinstance(each, torch.Tensor) and each.is_floating_point()]
    matrices = [tensor for tensor in tensors if tensor.ndim == 2]
    return matrices[0] if len(matrices) == 1 else made


def _described(made: Any) -> str:
    if isinstance(made, torch.Tensor):
        return f"a tensor of shape {tuple(made.shape)}"
    if isinstance(made, Mapping):
        return f"a dict of {', '.join(f'{name} ({_described(value)})' for name, value in made.items())}"
    if isinstance(made, tuple | list):
        return f"a {type(made).__name__} of {', '.join(map(_described, made)) or 'nothing'}"
    return type(made).__name__


def _failed(model: nn.Module, inputs: Any, error: Exception) -> SoftscopeError:
    if out_of_memory(error):
        return SoftscopeError(
            f"{type(model).__name__}: out of memory for {rows_in(inputs)} inputs", "Lower --batch (batch=)"
        )
    return SoftscopeError(
        f"{type(model).__name__} failed on {_described(inputs)}: {first_line(error)[:200]}",
        "Check the size (--size) and channels (--channels) of the inputs, and how many inputs the model takes",
    )


def _refused(model: nn.Module, layers: Mapping[str, Any], why: str) -> SoftscopeError:
    sizes = {name: tuple(layer.weight.shape[:2]) for name, layer in layers.items()}
    listed = ", ".join(f"{name} ({seen} -> {given})" for name, (given, seen) in list(sizes.items())[-12:])
    return SoftscopeError(f"{type(model).__name__}: of its linear layers {why} the model's answer: {listed}", _HINT)
