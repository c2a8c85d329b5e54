"""A trained network with its head and features, in the run store: what the experiments on real images share.

plan = NetworkPlan(data=Images("mnist", (0, 1, 2)), ood=(Images("fashion_mnist"),), config={"features": 16})
network = trained(store, plan)                    # trains and extracts once; afterwards reads
network.head, network.train, network.test, network.ood["fashion_mnist"]
network.diagnose_command("report")                # opens it with `softscope diagnose`
"""

import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...canonical import LATER
from ...features import FeatureSet
from ...files import sha256
from ...head import Head
from ...images import ImageSet
from ...metrics import accuracy, cross_entropy
from ...runs import Draft, Run, StepResult, Store
from ..datasets import find, load, require_files
from ..training import TrainSettings

if TYPE_CHECKING:
    from ...torch_door import nn
    from ..nets import Net
    from ..training.loop import AfterStep, EpochRecord

#: classes that a name lists one by one: it names files, which have at most 100 letters
_FEW = 20


@dataclass(frozen=True)
class Images:
    """Part of a catalogued data set: some `classes` (None: all), at most `train` and `test` rows of its splits."""

    dataset: str
    classes: tuple[int, ...] | None = None
    train: int | None = None
    test: int | None = None

    @property
    def name(self) -> str:
        """The data set, with its classes where only some are taken: digits-3-4, or many in a row: cifar100-70-to-99."""
        classes = self.classes or ()
        if len(classes) > _FEW and classes == tuple(range(classes[0], classes[-1] + 1)):
            return f"{self.dataset}-{classes[0]}-to-{classes[-1]}"
        return "-".join([self.dataset, *map(str, classes)])

    def load(self, split: str) -> ImageSet:
        """The rows of `split`; which ones a limit keeps doesn't depend on the run's seed."""
        return load(self.dataset, split, classes=self.classes, limit=self.train if split == "train" else self.test)

    def digests(self, split: str) -> dict[str, str]:
        """sha256 of the files behind `split`, so that other data means another step."""
        entry = find(self.dataset)
        if entry.name == "digits":
            return _digits_digest(split)
        return {path.name: sha256(path) for path in require_files(entry, split).files}


@dataclass(frozen=True, kw_only=True)
class NetworkPlan:
    """All that determines a trained network.

    `net` of `softscope.paper.nets` with its `config` (without `classes`), `data` it learns, `ood` sets it is confronted
    with, `training`, whose seed also draws the first weights. With `snapshots` the weights after about so many epochs,
    evenly from the first to the last, are kept beside the model.

    A plan that does something else to the network inherits from this one and adds what it does as fields.
    """

    data: Images
    training: TrainSettings
    ood: tuple[Images, ...] = ()
    net: str = "lenet"
    config: Mapping[str, Any] = field(default_factory=dict)
    snapshots: int = field(default=0, metadata=LATER)

    @property
    def training_step(self) -> str:
        """The step of the run store that holds what was trained."""
        return "train"

    def sets(self) -> dict[str, tuple[Images, str]]:
        """Images and split behind each set of features: train, test, and each OOD set by its name."""
        own = {"train": (self.data, "train"), "test": (self.data, "test")}
        return own | {ood.name: (ood, "test") for ood in self.ood}

    def snapshot_epochs(self) -> tuple[int, ...]:
        """The epochs (from 1) whose weights are kept."""
        return tuple(np.unique(np.linspace(self.training.epochs, 1, self.snapshots).round().astype(int)).tolist())

    def build(self, classes: int) -> "Net":
        """The untrained network."""
        from ..nets import build

        return build(self.net, seed=self.training.seed, **{**self.config, "classes": classes})

    def after_step(self) -> "AfterStep | None":
        """What to do after each update, if anything."""
        return None


@dataclass(frozen=True)
class TrainedNetwork:
    """The network of a plan in the store: `fit` holds the model, `made` the head and the features. Small, picklable."""

    plan: NetworkPlan
    fit: StepResult
    made: StepResult

    @cached_property
    def head(self) -> Head:
        """The last layer."""
        return Head.load(self.made.path("head.safetensors"))

    @cached_property
    def train(self) -> FeatureSet:
        """Training features with labels."""
        return FeatureSet.open(self.made.path("train.safetensors"))

    @cached_property
    def test(self) -> FeatureSet:
        """Test features with labels."""
        return FeatureSet.open(self.made.path("test.safetensors"))

    @cached_property
    def ood(self) -> dict[str, FeatureSet]:
        """Features of the test split of each OOD set, by the name of its images."""
        return {ood.name: FeatureSet.open(self.made.path(f"{ood.name}.safetensors")) for ood in self.plan.ood}

    @property
    def numbers(self) -> dict[str, Any]:
        """Accuracy and cross-entropy on the test images, `history` of the training, and `subsets` used."""
        return {**self.made.json(), "history": self.fit.json("history")}

    @property
    def subsets(self) -> list[str]:
        """The data sets it used in part."""
        used: list[str] = self.numbers["subsets"]
        return used

    @property
    def seconds(self) -> float:
        """Wall time of training and extraction, whenever they ran."""
        return wall_time(self.fit) + wall_time(self.made)

    @property
    def run(self) -> Run:
        """The run's folder, for further steps on this network."""
        return Run(self.made.folder.parent, {"seed": self.plan.training.seed})

    def net(self) -> "Net":
        """The model itself."""
        from ..nets import load_model

        return load_model(self.fit.path("model.safetensors")).net

    def snapshots(self) -> dict[int, Path]:
        """Files of `save_model` by the epoch (from 1) they were kept after; the weights as they were, not averaged."""
        return {epoch: self.fit.path(snapshot_file(epoch)) for epoch in self.plan.snapshot_epochs()}

    def diagnose_command(self, out: str) -> str:
        """The command that diagnoses this network and writes its report to `out`; paths as seen from this folder."""
        home = self.made.folder
        if home.is_relative_to(Path.cwd()):
            home = home.relative_to(Path.cwd())
        words = ["softscope", "diagnose"]
        for name in ("head", "train", "test"):
            words += [f"--{name}", str(home / f"{name}.safetensors")]
        for ood in self.plan.ood:
            words += ["--ood", f"{ood.name}={home / f'{ood.name}.safetensors'}"]
        return shlex.join([*words, "-o", out])


def trained(store: Store, plan: NetworkPlan) -> TrainedNetwork:
    """The network that `plan` describes: read from the store, or trained and its features extracted."""
    run = store.run(plan, kind=type(plan).__name__)
    fit = run.step(plan.training_step, partial(_train, plan), inputs={"images": plan.data.digests("train")})
    rest = {"test": plan.data.digests("test")} | {ood.name: ood.digests("test") for ood in plan.ood}
    made = run.step("features", partial(_extract, plan, fit), inputs={"train": fit, "images": rest})
    return TrainedNetwork(plan, fit, made)


def is_trained(store: Store, plan: NetworkPlan) -> bool:
    """Whether the store has the trained network of `plan`: a step's manifest appears with the whole step."""
    return any(store.run(plan, kind=type(plan).__name__).path.glob(f"{plan.training_step}-*/manifest.json"))


def subsets(networks: Iterable[Any]) -> list[str]:
    """Every data set that `networks`, trained or judged, used in part, each once."""
    return list(dict.fromkeys(line for network in networks for line in network.subsets))


def wall_time(step: StepResult) -> float:
    """Seconds that the step took, whenever it ran."""
    return float(step.provenance.get("seconds", 0.0))


def features_of(net: "Net", images: NDArray, labels: NDArray | None = None, **options: Any) -> FeatureSet:
    """Features of images of any size and colour; `options` go to `extract_features`."""
    from ...images import fit_images
    from ...models import extract_features

    return extract_features(net, fit_images(images, net.input_shape), labels, **options)


@cache
def _digits_digest(split: str) -> dict[str, str]:
    return load("digits", split).sha256


def snapshot_file(epoch: int) -> str:
    """The file of a step that trains with the weights after `epoch`."""
    return f"epoch-{epoch}.safetensors"


def _train(plan: NetworkPlan, draft: Draft) -> None:
    from ...images import fit_images
    from ..nets import save_model
    from ..training import train

    images = plan.data.load("train")
    net = plan.build(len(images.class_names))
    classes, dataset, moments = images.class_names, plan.data.dataset, plan.snapshot_epochs()

    def keep(now: "nn.Module", epoch: int, _: "EpochRecord") -> None:
        if epoch in moments:
            save_model(net, draft.scratch / snapshot_file(epoch), classes=classes, dataset=dataset)

    outcome = train(
        net,
        fit_images(images.images, net.input_shape),
        images.labels,
        plan.training,
        checkpoint_dir=draft.scratch,
        after_step=plan.after_step(),
        after_epoch=keep,
    )
    save_model(net, draft.path("model.safetensors"), classes=classes, dataset=dataset)
    for epoch in moments:
        shutil.copyfile(draft.scratch / snapshot_file(epoch), draft.path(snapshot_file(epoch)))
    draft.json({name: [getattr(epoch, name) for epoch in outcome.history] for name in ("loss", "accuracy")}, "history")


def _extract(plan: NetworkPlan, fit: StepResult, draft: Draft) -> None:
    from ..nets import load_model

    saved = load_model(fit.path("model.safetensors"))
    head = Head.from_torch(saved.net, saved.classes)
    used: list[str] = []
    kept: dict[str, FeatureSet] = {}
    for name, (source, split) in plan.sets().items():
        images = source.load(split)
        labels = images.labels if source is plan.data else None
        about = {"model": plan.net, "dataset": source.name, "split": split}
        out = draft.path(f"{name}.safetensors")
        kept[name] = features_of(saved.net, images.images, labels, out=out, name=name, metadata=about)
        if images.subset:
            used.append(f"{images.name}: {images.subset}")
    head.save(draft.path("head.safetensors"))
    draft.json({**numbers_on_test(head, kept["test"]), "subsets": used})


def numbers_on_test(head: Head, test: FeatureSet) -> dict[str, float]:
    """Accuracy in percent and cross-entropy on the test images."""
    logits = head.logits(test.array())
    right, loss = accuracy(logits, test.labels), cross_entropy(logits, test.labels)
    return {"accuracy": 100 * right.value, "cross_entropy": loss.value}
