"""Features of images on many machines: workers write the parts of a set, whoever called joins them.

Every machine must see images, model and output under the same paths. A worker opens the model once.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from ..engine import Engine
from ..errors import SoftscopeError
from ..head import Head
from ..images import Preprocessing
from ..models import OpenedModel, Options, Part, Plan, SetPlan, first_images, write_part
from ..progress import Progress, adding, silent


@dataclass(frozen=True)
class SpreadExtraction:
    """For `Options.spread`: the tasks of `engine` write the parts; `opener()` opens the model in each worker."""

    opener: Callable[[], OpenedModel]
    engine: Engine
    batch: int = 64
    progress: Progress = silent

    def __call__(self, plan: Plan, chosen: SetPlan, parts: Sequence[Part]) -> None:
        done = len(chosen.rows) - sum(part.rows.stop - part.rows.start for part in parts)
        told = adding(self.progress, f"features of {chosen.name}", len(chosen.rows), done)
        task = _Task(self.opener, plan.opened.preprocessing, plan.opened.layer, plan.head, chosen, self.batch)
        self.engine.map(task, parts, gpus=1, told=told)


@dataclass(frozen=True)
class _Task:
    """All copies of a task are equal by `name`, however often it was sent."""

    opener: Callable[[], OpenedModel] = field(compare=False)
    preprocessing: Preprocessing = field(compare=False)
    layer: Literal["after", "before"] = field(compare=False)
    head: Head = field(compare=False)
    chosen: SetPlan = field(compare=False)
    batch: int = field(compare=False)
    name: str = field(default_factory=secrets.token_hex)

    def __call__(self, part: Part) -> int:
        plan = Plan(_opened(self), self.head, {self.chosen.name: self.chosen}, "")
        write_part(plan, self.chosen, part, Options(self.batch))
        return int(part.rows.stop - part.rows.start)


@lru_cache(maxsize=1)
def _opened(task: _Task) -> OpenedModel:
    """The model, prepared as it was where the work was planned."""
    opened = task.opener()
    opened.preprocessing = task.preprocessing
    images = first_images(task.chosen.source, task.chosen.decoder)
    head = opened.prepare(task.preprocessing.apply(images[:2]), task.layer)
    if head.weight.shape != task.head.weight.shape:
        raise SoftscopeError(f"{opened.name}: another model on this machine", "Copy its files to every machine")
    return opened
