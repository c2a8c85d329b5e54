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
from ..progress import Progress, silent


@dataclass(frozen=True)
class Spread:
    """For `Options.spread`: the tasks of `engine` write the parts; `opener()` opens the model in each worker."""

    opener: Callable[[], OpenedModel]
    engine: Engine
    batch: int = 64
    progress: Progress = silent

    def __call__(self, plan: Plan, chosen: SetPlan, parts: Sequence[Part]) -> None:
        done = len(chosen.rows) - sum(part.rows.stop - part.rows.start for part in parts)

        def told(rows: int) -> None:
            nonlocal done
            done += rows
            self.progress(f"features of {chosen.name}", done, len(chosen.rows))

        told(0)
        task = _Task(self.opener, plan.opened.preprocessing, plan.opened.layer, plan.head, chosen, self.batch)
        self.engine.map(task, parts, gpus=1, told=told)


@dataclass(frozen=True)
class _Task:
    opener: Callable[[], OpenedModel]
    preprocessing: Preprocessing
    layer: Literal["after", "before"]
    head: Head
    chosen: SetPlan
    batch: int
    name: str = field(default_factory=secrets.token_hex)

    def __call__(self, part: Part) -> int:
        plan = Plan(_opened(_Named(self.name, self)), self.head, {self.chosen.name: self.chosen}, "")
        write_part(plan, self.chosen, part, Options(self.batch))
        return int(part.rows.stop - part.rows.start)

    def open(self) -> OpenedModel:
        """The model, prepared as it was where the work was planned."""
        opened = self.opener()
        opened.preprocessing = self.preprocessing
        images = first_images(self.chosen.source, self.chosen.decoder)
        head = opened.prepare(self.preprocessing.apply(images[:2]), self.layer)
        if head.weight.shape != self.head.weight.shape:
            raise SoftscopeError(f"{opened.name}: another model on this machine", "Copy its files to every machine")
        return opened


@dataclass(frozen=True)
class _Named:
    """Equal for all copies of a task, however often it was sent."""

    name: str
    task: _Task = field(compare=False)


@lru_cache(maxsize=1)
def _opened(named: _Named) -> OpenedModel:
    return named.task.open()
