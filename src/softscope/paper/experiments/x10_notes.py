"""What belongs beside the numbers of X10: weights, protocol where the paper is silent, what stands in for what."""

from collections.abc import Sequence

from .x10_plans import TransferSettings
from .x10_rows import NOTE


def how(settings: TransferSettings) -> str:
    """One sentence for captions: which network, how large the images, how long it was trained."""
    sizes = sorted({topic.images.size for topic in settings.topics if topic.images.size})
    pixels = f", {' and '.join(map(str, sizes))} pixels" if sizes else ""
    tail = "all layers" if settings.tail is None else f"the last {settings.tail} modules"
    epochs = sorted({topic.epochs for topic in settings.topics})
    return (
        f"{_name(settings)}{pixels}: last layer {settings.last.epochs} epochs, then {tail} "
        f"{' or '.join(map(str, epochs))}; from scratch {settings.scratch.training.epochs} epochs"
        + (f" at {settings.scratch.size} pixels." if settings.scratch.size else ".")
    )


def notes(settings: TransferSettings, skipped: Sequence[str]) -> list[str]:
    """All of them, the weights first."""
    corrupt = f": {', '.join(skipped[:5])}" if skipped else ""
    return [
        *_weights(settings),
        *_stand_ins(settings),
        how(settings) + " Fine-tuning starts from the last layer's network; batch norms keep ImageNet's means and "
        "variances, images are shown as they are (the centre square), Adam at 1e-3 for the last layer and at "
        f"{settings.tuning.lr:g} for the rest, batches of {settings.tuning.batch}. The paper states crops "
        "and epochs only.",
        "What comes before the tuned part is computed once for each image; scale paper tunes everything from images.",
        "U_density, and with it the causes: class means and one covariance for all classes on log(z + 0.001), shrunk "
        "by Ledoit and Wolf's rule; 'as the paper's': K full covariances by EM from the classes, ridge 1e-3, on log z. "
        "With 10 images a class at H = 1280 the latter is mostly ridge.",
        "'From scratch' is the same kind of network trained on the same images alone (smaller ones, with crops and "
        "mirrors; SGD): the comparison the paper didn't make. So few images teach it little, as its accuracy says: its "
        "overlap is that of a network which has learned little. 'In grey' is the last layer with every image in grey.",
        NOTE,
        f"{len(skipped)} corrupt images were left out{corrupt}.",
    ]


def _name(settings: TransferSettings) -> str:
    return settings.source if isinstance(settings.source, str) else f"{settings.source.net} of our own"


def _weights(settings: TransferSettings) -> list[str]:
    if not isinstance(settings.source, str):
        return [
            "The pre-trained network is a small one of our own, trained on all digits: a check of the code, not of X10."
        ]
    from ..nets.pretrained import pretrained

    found = pretrained(settings.source).weights
    return [f"Weights: {found.source}, {found.file}, {found.bytes:,} bytes, sha256 {found.sha256}."]


def _stand_ins(settings: TransferSettings) -> list[str]:
    out = []
    if settings.source == "efficientnet_lite1":
        out.append(
            "EfficientNet-Lite1 stands in for the paper's EfficientNetB1: the same blocks and H = 1280, with ReLU6 in "
            "place of swish and without squeeze-and-excitation."
        )
    for topic in settings.topics:
        if topic.title == "Cancer" and topic.name != "colorectal_histology":
            out.append(f"Cancer is {topic.name} here: the paper's tiles and classes as a greyscale copy at 128 pixels.")
    return out
