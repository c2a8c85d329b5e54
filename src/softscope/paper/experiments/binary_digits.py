"""Digits as 9x9 bits and the small network that learns them, in the run store: what X6 scans."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...images import binarise9
from ...runs import Draft, Run, StepResult, Store
from ..training import TrainSettings
from .networks import Images


@dataclass(frozen=True, kw_only=True)
class BinaryPlan:
    """All that determines a trained FilterNet; the seed of `training` also draws the first weights."""

    data: Images
    conv_layers: int
    training: TrainSettings


@dataclass(frozen=True)
class Digits:
    """Bits [N, 9, 9], labels, and the names of the classes."""

    bits: NDArray[np.uint8]
    labels: NDArray[np.int64]
    names: tuple[str, ...]


def digits(data: Images, split: str) -> Digits:
    """The images of `split` downsampled and binarised (`data.binarise9`)."""
    found = data.load(split)
    return Digits(binarise9(found.images)[..., 0], np.asarray(found.labels), tuple(map(str, found.class_names)))


def trained_filter(store: Store, plan: BinaryPlan) -> tuple[Run, StepResult]:
    """The run of `plan` and its step with `model.safetensors` and, as numbers, the accuracy on the test split."""
    run = store.run(plan)
    files = {split: plan.data.digests(split) for split in ("train", "test")}
    return run, run.step("train", partial(_train, plan), inputs={"images": files})


def _train(plan: BinaryPlan, draft: Draft) -> None:
    from ..nets import build, save_model
    from ..training import evaluate, train

    known, test = digits(plan.data, "train"), digits(plan.data, "test")
    net = build("filter", seed=plan.training.seed, classes=len(known.names), conv_layers=plan.conv_layers)
    train(net, known.bits[..., None], known.labels, plan.training, checkpoint_dir=draft.scratch)
    found = evaluate(net, test.bits[..., None], test.labels)
    save_model(net, draft.path("model.safetensors"), classes=known.names, dataset=plan.data.dataset)
    draft.json({"accuracy": found.accuracy, "rows": len(test.labels)})
