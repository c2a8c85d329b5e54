"""What X10 trains: photographs of five topics, in four kinds of networks, and the settings of its scales."""

from dataclasses import dataclass, field, replace

from ...images import ImageSet, greyscale
from ..datasets import load
from ..training import TrainSettings
from .base import Settings
from .networks import Images, NetworkPlan
from .transfer import ActivationPlan, BodySource, TransferPlan

LAST, TUNED, GREY, SCRATCH = "last layer", "fine-tuned", "last layer in grey", "from scratch"


@dataclass(frozen=True)
class Photographs(Images):
    """Images whose centre square is resized to `size` pixels a side (None: as they are); `grey` removes the colour."""

    size: int | None = None
    grey: bool = False

    def load(self, split: str) -> ImageSet:
        """The rows of `split`, decoded by worker threads with a bounded number of blocks under way.

        An image that can't be decoded is named in `ImageSet.skipped` and left out, with a warning that has the count.
        """
        limit = self.train if split == "train" else self.test
        images = load(self.dataset, split, classes=self.classes, limit=limit, size=self.size)
        return replace(images, images=greyscale(images.images)) if self.grey else images


@dataclass(frozen=True)
class Topic:
    """A line of the table: its `title` in the paper, our data, and for how many epochs all layers are tuned."""

    title: str
    images: Photographs
    epochs: int

    @property
    def name(self) -> str:
        """The data set."""
        return self.images.name


@dataclass(frozen=True)
class Scratch:
    """A network trained on the same images from nothing, at `size` pixels on each side (None: as they are)."""

    net: str
    size: int | None
    training: TrainSettings


@dataclass(frozen=True, kw_only=True)
class TransferSettings(Settings):
    """`topics` are each learned, and each OOD of the others. `source` and `tail` as in `TransferPlan`; the epochs of
    `tuning` are each topic's own. `controls` runs are made of the networks that the paper's table doesn't have: the
    last layer alone, the same on images in grey, and `scratch`."""

    topics: tuple[Topic, ...]
    source: BodySource
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


def _topics(size: int, cancer: str, epochs: int, cancer_size: int | None = None) -> tuple[Topic, ...]:
    """The paper's five; flowers are tuned twice as long as the others."""
    return (
        Topic("Satellite", Photographs("uc_merced", size=size), epochs),
        Topic("Cancer", Photographs(cancer, size=cancer_size or size), epochs),
        Topic("Pets", Photographs("oxford_pets", size=size), epochs),
        Topic("Flowers", Photographs("flowers102", size=size), 2 * epochs),
        Topic("Beans", Photographs("beans", size=size), epochs),
    )


def _digits() -> tuple[Topic, ...]:
    groups = ((0, 1, 2), (3, 4, 5), (6, 7, 8, 9))
    return tuple(Topic(f"Digits {c[0]}-{c[-1]}", Photographs("digits", c), 2) for c in groups)


_BRIEFLY = TrainSettings(epochs=3, batch=16, precision="float32")
_FROM_SCRATCH = TrainSettings(
    optimizer="sgd",
    lr=0.05,
    weight_decay=5e-4,
    epochs=12,
    batch=32,
    augment="crop+flip",
    standardise=True,
    precision="float32",
)

SCALES = {
    "smoke": TransferSettings(
        topics=_digits(),
        source=NetworkPlan(data=Photographs("digits"), net="small", training=_BRIEFLY),
        tail=2,
        scratch=Scratch("small", None, _BRIEFLY),
    ),
    "laptop": TransferSettings(
        topics=_topics(192, "colorectal_histology_grey", epochs=4),
        source="efficientnet_lite1",
        tail=5,
        scratch=Scratch("efficientnet_lite", 64, _FROM_SCRATCH),
        runs=3,
    ),
    # As the paper has it, all layers at 224 px, for fewer epochs; the control learns from the same pixels. Measured: 19
    # images a second and thread in bfloat16, so about half an hour a run for fine-tuning and 2.7 hours for the control.
    "overnight": TransferSettings(
        topics=_topics(224, "colorectal_histology_grey", epochs=6),
        source="efficientnet_lite1",
        scratch=Scratch("efficientnet_lite", 224, replace(_FROM_SCRATCH, epochs=40, precision="auto")),
        tuning=TrainSettings(lr=1e-4, batch=32, precision="auto", augment="crop+flip"),
        controls=3,
        runs=3,
        piecewise=True,
    ),
    "paper": TransferSettings(
        topics=_topics(224, "colorectal_histology", epochs=32, cancer_size=150),
        source="efficientnet_b1",
        scratch=Scratch("efficientnet_lite", 224, replace(_FROM_SCRATCH, epochs=100)),
        controls=3,
        runs=3,
        threads=2,
    ),
}
