"""Networks whose last layer is frozen in one of the paper's structures while the rest learns (X4)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import SoftscopeError
from ...geometry import lopsided, optimal_structure, sandwich, stack
from ...head import Head
from .networks import NetworkPlan

if TYPE_CHECKING:
    from ..nets import Net
    from ..training.loop import AfterStep

MAKERS = {"optimal": optimal_structure, "sandwich": sandwich, "stack": stack, "lopsided": lopsided}


@dataclass(frozen=True, kw_only=True)
class StructurePlan(NetworkPlan):
    """`structure` with weights of norm `norm` (its outermost for the stack), frozen.

    It is embedded in the feature space by a random rotation drawn from the training's seed. `aligned` instead puts it
    into the first coordinates, its first class where no features >= 0 can favour it: what ReLU features do then is
    part of X4. The stack is reached by moving the weights from the optimal structure over the first `moving` of all
    steps; fixed from the start, it fails to train, as in the paper.
    """

    structure: str
    norm: float
    aligned: bool = False
    moving: float = 0.5

    def head(self, classes: int, structure: str | None = None) -> Head:
        """The frozen layer, or another structure in its place and embedding."""
        name = structure or self.structure
        if name not in MAKERS:
            raise SoftscopeError(f"no structure is called {name!r}", f"Choose one of {', '.join(MAKERS)}")
        seed = None if self.aligned else self.training.seed
        made = MAKERS[name](classes, int(self.config["features"]), norm=self.norm, seed=seed)
        order = slice(None, None, -1 if self.aligned else 1)
        return Head(made.weight[order], made.bias[order], name=name)

    def build(self, classes: int) -> "Net":
        """The network with the frozen layer in the place of its own."""
        net = super().build(classes)
        if self.structure == "stack":
            net.replace_classifier(self.head(classes, "optimal").weight, np.zeros(classes))
        else:
            frozen = self.head(classes)
            net.replace_classifier(frozen.weight, frozen.bias if frozen.bias.any() else None)
        return net

    def after_step(self) -> "AfterStep | None":
        """For the stack: move the weights a step further; at the end of the move they are exactly the stack's."""
        return _Move(self) if self.structure == "stack" else None


class _Move:
    """Weights and biases on a straight line from the optimal structure to the plan's."""

    def __init__(self, plan: StructurePlan) -> None:
        self.plan = plan

    def __call__(self, net: Any, step: int, steps: int) -> None:
        import torch

        done = min(1.0, step / max(1.0, self.plan.moving * steps))
        classes = net.classifier.out_features
        start, end = self.plan.head(classes, "optimal"), self.plan.head(classes)
        weight = (1 - done) * start.weight + done * end.weight
        net.classifier.weight.copy_(torch.from_numpy(weight.astype(np.float32)))
        net.classifier.bias.copy_(torch.from_numpy((done * end.bias).astype(np.float32)))
