"""What X10 trains: the settings of its scales as plans, one a topic, in four kinds."""

from dataclasses import dataclass, field, replace

from ..training import TrainSettings
from .base import Settings
from .networks import NetworkPlan
from .photographs import Photographs, Topic
from .transfer import ActivationPlan, Source, TransferPlan

LAST, TUNED, GREY, SCRATCH = "last layer", "fine-tuned", "last layer in grey", "from scratch"


@dataclass(frozen=True)
class Scratch:
    """A network trained on the same images from nothing, at `size` pixels a side (None: as they are)."""

    net: str
    size: int | None
    training: TrainSettings


@dataclass(frozen=True, kw_only=True)
class TransferSettings(Settings):
    """`topics` are each learned, and each OOD of the others. `source` and `tail` as in `TransferPlan`; the epochs of
    `tuning` are each topic's own. `controls` runs are made of the networks that the paper's table doesn't have: the
    last layer alone, the same on images in grey, and `scratch`."""

    topics: tuple[Topic, ...]
    source: Source
    scratch: Scratch
    controls: int = 1
    tail: int | None = None
    last: TrainSettings = field(default_factory=lambda: TrainSettings(epochs=16, batch=32, precision="float32"))
    tuning: TrainSettings = field(default_factory=lambda: TrainSettings(lr=1e-4, batch=32, precision="float32"))


def plans(settings: TransferSettings) -> dict[str, list[NetworkPlan]]:
    """All networks by kind: one run after the other, the topics of each in their order."""
    runs = settings.single_runs()
    few = replace(settings, runs=settings.controls).single_runs()
    return {
        TUNED: [_transfer(own, topic) for own in runs for topic in own.topics],
        LAST: [_transfer(own, topic).before for own in few for topic in own.topics],
        GREY: [_in_grey(own, topic) for own in few for topic in own.topics],
        SCRATCH: [_scratch(own, topic) for own in few for topic in own.topics],
    }


def activation_plans(settings: TransferSettings) -> list[ActivationPlan]:
    """Every set that the plans look at, each once: in colour before the tail, in grey the features alone."""
    return [
        ActivationPlan(settings.source, images, split, tail)
        for topic in settings.topics
        for images, tail in ((topic.images, settings.tail), (_grey(topic), None))
        for split in ("train", "test")
    ]


def _transfer(settings: TransferSettings, topic: Topic) -> TransferPlan:
    return TransferPlan(
        data=topic.images,
        ood=tuple(other.images for other in _others(settings, topic)),
        source=settings.source,
        tail=settings.tail,
        training=replace(settings.last, seed=settings.seed, threads=settings.threads),
        tuning=replace(settings.tuning, epochs=topic.epochs, seed=settings.seed, threads=settings.threads),
        net="transferred",
    )


def _in_grey(settings: TransferSettings, topic: Topic) -> TransferPlan:
    ood = tuple(_grey(other) for other in _others(settings, topic))
    return replace(_transfer(settings, topic).before, data=_grey(topic), ood=ood, tail=None)


def _scratch(settings: TransferSettings, topic: Topic) -> NetworkPlan:
    kind = settings.scratch
    return NetworkPlan(
        data=replace(topic.images, size=kind.size),
        ood=tuple(replace(other.images, size=kind.size) for other in _others(settings, topic)),
        net=kind.net,
        training=replace(kind.training, seed=settings.seed, threads=settings.threads),
    )


def _others(settings: TransferSettings, topic: Topic) -> list[Topic]:
    return [other for other in settings.topics if other != topic]


def _grey(topic: Topic) -> Photographs:
    return replace(topic.images, grey=True)
