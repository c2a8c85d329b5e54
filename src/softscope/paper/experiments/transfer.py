"""Transfer from a pre-trained network (X10): activations computed once, a new last layer, then the last blocks.

plan = TransferPlan(source="efficientnet_lite1", data=beans, ood=others, training=last_layer, tuning=later, tail=5)
network = transferred(store, plan)             # reads what the store has; a TrainedNetwork like any other

What comes before the trained part is the same in every epoch and run, so each image goes through it once.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import spans
from ...features import FeatureSet
from ...head import Head
from ...runs import Draft, StepResult, Store
from ..training import TrainSettings
from .networks import Images, NetworkPlan, TrainedNetwork, numbers_on_test, trained

if TYPE_CHECKING:
    from ..nets import Net
    from ..nets.pretrained import Pretrained

BodySource = str | NetworkPlan
_BATCH = 32


@dataclass(frozen=True, kw_only=True)
class TransferPlan(NetworkPlan):
    """A network of `source`, the name of a pre-trained one or the plan of our own, taken to other data.

    `training` is that of a new last layer on the source's features. `tuning` then trains the last `tail` modules of
    the body with it (None: all of them, from images); without it the body stays as it came.
    """

    source: BodySource
    tail: int | None = None
    tuning: TrainSettings | None = None

    @property
    def training_step(self) -> str:
        """A plan without tuning trains the last layer alone."""
        return "tune" if self.tuning else "last-layer"

    @property
    def before(self) -> "TransferPlan":
        """The plan of the last layer alone."""
        return replace(self, tuning=None)


@dataclass(frozen=True)
class ActivationPlan:
    """The activations of `images` before the last `tail` modules of a source's body, and its features."""

    source: BodySource
    images: Images
    split: str
    tail: int | None


@dataclass(frozen=True)
class TransferredNetwork(TrainedNetwork):
    """As every trained network; `store` has its source."""

    store: Store

    def net(self) -> "Net":
        """The model itself: the source with what was trained in its place."""
        assert isinstance(self.plan, TransferPlan)
        return _with_layers(self.store, self.plan.source, self.fit)


def activations(store: Store, plan: ActivationPlan) -> StepResult:
    """`z` and `labels` of the images and, with a tail, `maps`; `numbers.json` says what the images were."""
    known = {"images": plan.images.digests(plan.split), "weights": _source_digest(store, plan.source)}
    return store.run(plan).step("activations", partial(_activate, store, plan), inputs=known)


def transferred(store: Store, plan: TransferPlan) -> TransferredNetwork:
    """The network that `plan` describes, with features of its data and of every OOD set."""
    sets = _sets(store, plan)
    run = store.run(plan)
    if plan.tuning is None:
        produce = partial(_fit_last_layer, plan, sets["train"])
        fit = run.step(plan.training_step, produce, inputs={"train": sets["train"]})
    else:
        last = transferred(store, plan.before)
        produce = partial(_tune, store, plan, sets["train"], last)
        fit = run.step(plan.training_step, produce, inputs={"train": sets["train"], "last": last.fit})
    made = run.step("features", partial(_features, store, plan, fit, sets), inputs={"fit": fit, **sets})
    return TransferredNetwork(plan, fit, made, store)


def source_net(store: Store, source: BodySource) -> "Net":
    """The pre-trained network, in evaluation mode; shared, so copy it before training."""
    if isinstance(source, NetworkPlan):
        return trained(store, source).net()
    return _pretrained(source).net


def _source_digest(store: Store, source: BodySource) -> str:
    if isinstance(source, NetworkPlan):
        return trained(store, source).fit.digest
    return _pretrained(source).weights.sha256


@cache
def _pretrained(name: str) -> "Pretrained":
    from ..nets.pretrained import pretrained

    return pretrained(name)


def _sets(store: Store, plan: TransferPlan) -> dict[str, StepResult]:
    """Activations of the training and test split of the data, and of the test split of each OOD set."""
    return {
        name: activations(store, ActivationPlan(plan.source, images, split, plan.tail))
        for name, (images, split) in plan.sets().items()
    }


def _activate(store: Store, plan: ActivationPlan, draft: Draft) -> None:
    from ...images import fit_images
    from ...torch_door import evaluating, keep_freed_memory, torch
    from ..nets import into_tail, through_tail

    images = plan.images.load(plan.split)
    net = source_net(store, plan.source)
    pixels = fit_images(images.images, net.input_shape)
    keep_freed_memory()
    blocks: list[tuple[NDArray, NDArray]] = []
    with evaluating(net):
        for span in spans(len(pixels), _BATCH):
            seen = into_tail(net, torch.from_numpy(pixels[span]), plan.tail)
            blocks.append((seen.numpy(), through_tail(net, seen, plan.tail).numpy()))
    maps, z = (np.concatenate(parts) for parts in zip(*blocks))
    kept = {"z": z, "labels": images.labels}
    draft.tensors(kept if plan.tail is None else kept | {"maps": maps})
    subset = [f"{images.name}: {images.subset}"] if images.subset else []
    draft.json({"classes": images.class_names, "subsets": subset, "skipped": images.skipped})


def _fit_last_layer(plan: TransferPlan, train: StepResult, draft: Draft) -> None:
    from ...torch_door import nn, torch
    from ..training import train as fit

    seen = train.tensors()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.training.seed)
        layer = nn.Linear(seen["z"].shape[1], len(train.json()["classes"]))
    fitted = fit(layer, seen["z"], seen["labels"], plan.training, checkpoint_dir=draft.scratch)
    _keep_fit(draft, {f"classifier.{name}": tensor for name, tensor in layer.state_dict().items()}, fitted)


def _tune(store: Store, plan: TransferPlan, train: StepResult, last: TransferredNetwork, draft: Draft) -> None:
    from ..nets import Tuner
    from ..training import train as fit

    assert plan.tuning is not None
    tuner = Tuner(last.net(), plan.tail)
    labels = train.tensors()["labels"]
    inputs = _inputs(store, plan, plan.data, "train", train)
    fitted = fit(tuner, inputs, labels, plan.tuning, checkpoint_dir=draft.scratch)
    _keep_fit(draft, tuner.trained_state(), fitted)


def _keep_fit(draft: Draft, state: Mapping[str, Any], fitted: Any) -> None:
    draft.tensors({name: tensor.detach().numpy() for name, tensor in state.items()}, "layers")
    draft.json({name: [getattr(epoch, name) for epoch in fitted.history] for name in ("loss", "accuracy")}, "history")


def _features(store: Store, plan: TransferPlan, fit: StepResult, sets: Mapping[str, StepResult], draft: Draft) -> None:
    """Features of every set as files that `softscope diagnose` opens, the head, and the accuracy on the test images."""
    from ...models import extract_features
    from ..nets import Tuner

    layers = fit.tensors("layers")
    head = Head(
        layers["classifier.weight"],
        layers["classifier.bias"],
        sets["train"].json()["classes"],
        name=str(plan.data.name),
    )
    tuner = Tuner(_with_layers(store, plan.source, fit), plan.tail) if plan.tuning else None
    known: dict[str, FeatureSet] = {}
    for name, (images, split) in plan.sets().items():
        seen = sets[name]
        labels = seen.tensors()["labels"] if images is plan.data else None
        words = {"model": str(plan.net), "dataset": images.name, "split": split}
        if tuner is None:
            known[name] = FeatureSet(seen.tensors()["z"], labels, name=name, metadata={"layer": "after", **words})
        else:
            inputs = _inputs(store, plan, images, split, seen)
            known[name] = extract_features(tuner, inputs, labels, batch=_BATCH, name=name, metadata=words)
        known[name].save(draft.path(f"{name}.safetensors"))
    head.save(draft.path("head.safetensors"))
    every = [seen.json() for seen in sets.values()]
    numbers = numbers_on_test(head, known["test"])
    draft.json(numbers | {name: [line for own in every for line in own[name]] for name in ("subsets", "skipped")})


def _inputs(store: Store, plan: TransferPlan, images: Images, split: str, seen: StepResult) -> NDArray:
    """What the tuned part sees: activations, or images where all of the network is tuned."""
    if plan.tail is not None:
        return seen.tensors()["maps"]
    from ...images import fit_images

    return fit_images(images.load(split).images, source_net(store, plan.source).input_shape)


def _with_layers(store: Store, source: BodySource, fit: StepResult) -> "Net":
    """The source with trained tensors in the place of its own; the last layer takes its new number of classes."""
    from ...torch_door import torch

    net, layers = copy.deepcopy(source_net(store, source)), fit.tensors("layers")
    net.classifier = net.classifier.__class__(net.classifier.in_features, len(layers["classifier.weight"]))
    state = net.state_dict()
    state |= {name: torch.from_numpy(value).reshape(state[name].shape) for name, value in layers.items()}
    net.load_state_dict(state)
    return net.eval()
