"""Features of a trained network before its last non-linearity, row for row as those after it (X8)."""

from functools import partial

from ...runs import Draft, StepResult
from ...tuning import Features, Sets
from .networks import Images, TrainedNetwork


def before(network: TrainedNetwork) -> StepResult:
    """The step that holds them: train, test and each OOD set, named as those after the non-linearity."""
    known = {"train": network.fit, "features": network.made}
    return network.run.step("before", partial(_extract, network), inputs=known)


def both_layers(network: TrainedNetwork, extracted: StepResult) -> Features:
    """What a search works on."""
    from ...features import FeatureSet

    def opened(name: str) -> FeatureSet:
        return FeatureSet.open(extracted.path(f"{name}.safetensors"))

    earlier = Sets(opened("train"), opened("test"), {name: opened(name) for name in network.ood})
    later = Sets(network.train, network.test, network.ood)
    return Features(network.head.n_classes, later, earlier)


def _extract(network: TrainedNetwork, draft: Draft) -> None:
    from ...images import fit_images
    from ...models import extract_features

    plan, net = network.plan, network.net()
    wanted: list[tuple[str, Images, str]] = [("train", plan.data, "train"), ("test", plan.data, "test")]
    for name, source, split in [*wanted, *((ood.name, ood, "test") for ood in plan.ood)]:
        images = source.load(split)
        extract_features(
            net,
            fit_images(images.images, net.input_shape),
            layer="before",
            out=draft.path(f"{name}.safetensors"),
            name=name,
            metadata={"model": plan.net, "dataset": source.name, "split": split},
        )
