"""X10 (table_AUROC_bench, bottom; table_transferdatasets): does pre-training remove feature overlap?

A network trained on ImageNet is taken to five data sets, each confronted with the other four: first a new last layer,
then the last blocks. Past the paper: both stages are diagnosed, a network of the same shape is trained on the same
images from nothing, and all sets are shown in grey, so that colour alone doesn't explain the result.
"""

from dataclasses import replace
from functools import partial

from ...engine import Engine
from ...runs import Store
from ..training import TrainSettings
from .base import Result
from .networks import NetworkPlan, subsets
from .photographs import Photographs, Topic
from .transfer import activations
from .x10_figures import captions, figures
from .x10_notes import how, notes
from .x10_plans import Scratch, TransferSettings, activation_plans, plans
from .x10_rows import rows
from .x10_scores import Compared, compared
from .x10_tables import SHOWN, report_notes, tables


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
    "paper": TransferSettings(
        topics=_topics(224, "colorectal_histology", epochs=32, cancer_size=150),
        source="efficientnet_b1",
        scratch=Scratch("efficientnet_lite", 224, replace(_FROM_SCRATCH, epochs=100)),
        controls=3,
        runs=3,
        threads=2,
    ),
}


def run(settings: TransferSettings, store: Store, engine: Engine) -> Result:
    """Activations first, then every network, each judged; the paper's table beside the fine-tuned ones."""
    seen = engine.map(partial(activations, store), activation_plans(settings), threads=settings.threads, label="images")
    todo = plans(settings)
    every: list[Compared] = engine.map(
        partial(compared, store), [plan for own in todo.values() for plan in own], threads=settings.threads, label="X10"
    )
    found: dict[str, dict[str, list[Compared]]] = {}
    done = iter(every)
    for kind, own in todo.items():
        found[kind] = {topic.title: [] for topic in settings.topics}
        for _ in range(len(own) // len(settings.topics)):
            for topic in settings.topics:
                found[kind][topic.title].append(next(done))
    skipped = sorted({name for step in seen for name in step.json()["skipped"]})
    return Result(
        rows=rows(found),
        figures=figures(found),
        captions=captions(found, how(settings)),
        tables=tables(found),
        shown=SHOWN,
        notes=[*notes(settings, skipped), *report_notes(found)],
        subsets=subsets([own.network for own in every]),
        seconds=sum(own.seconds for own in every) + sum(float(step.provenance.get("seconds", 0.0)) for step in seen),
    )
