"""X9 (table_AUROC_bench, top; fig_grid_auroc; fig_cifar_etc): five data sets, each network against the other four."""

from functools import partial

from ...engine import Engine
from ...runs import Store
from .base import Result
from .five_scores import Judged, judged
from .five_sets import AUGMENT_ALL, FiveSettings, Recipe, plans
from .literature import beside, shared_pairs
from .networks import subsets
from .x09_figures import captions, figures
from .x09_rows import NOTE, Found, rows
from .x09_tables import SHOWN, report_notes, tables

SCALES = {
    "smoke": FiveSettings(
        recipes=dict.fromkeys(("digits-0-1-2", "digits-3-4-5", "digits-6-7-8-9"), Recipe(epochs=4)),
        batch=16,
        precision="float32",
        net="small",
        threads=1,
    ),
    "laptop": FiveSettings(
        recipes={
            "mnist": Recipe(epochs=2, train=20_000),
            "fashion_mnist": Recipe(epochs=3, train=20_000),
            "svhn": Recipe(epochs=7, train=15_000),
            "cifar10": Recipe(epochs=8, train=20_000),
            "cifar100": Recipe(epochs=6, train=35_000),
        },
        test=5_000,
        batch=128,
        precision="bfloat16",
    ),
    # One thread, so that two networks train side by side; float32, because bfloat16 takes 12 times as long on cores
    # that do not have it (AVX2: 67 images/s and thread against 5).
    "overnight": FiveSettings(
        runs=3,
        recipes={
            "mnist": Recipe(epochs=4),
            "fashion_mnist": Recipe(epochs=12),
            "svhn": Recipe(epochs=8),
            "cifar10": Recipe(epochs=30),
            "cifar100": Recipe(epochs=40),
        },
        lr=0.05,
        weight_decay=1e-2,
        batch=128,
        precision="float32",
        threads=1,
        average=0.25,
        snapshots=6,
        augment=AUGMENT_ALL,
    ),
    "paper": FiveSettings(runs=5),
}


def run(settings: FiveSettings, store: Store, engine: Engine) -> Result:
    """Train and judge `runs` networks a data set, and set the paper's table beside them."""
    found = measured(settings, store, engine)
    every = [own for runs in found.values() for own in runs]
    shared = tuple(line for lines in shared_pairs(found).values() for line in lines)
    shown = tables(found) | ({"literature": beside(found, shared)} if shared else {})
    return Result(
        rows=rows(found),
        figures=figures(found),
        captions=captions(found),
        tables=shown,
        shown={name: words for name, words in SHOWN.items() if name in shown},
        notes=[*_NOTES, *report_notes(found)],
        subsets=subsets([own.network for own in every]),
        seconds=sum(own.seconds for own in every),
    )


def measured(settings: FiveSettings, store: Store, engine: Engine, learned: tuple[str, ...] = ()) -> Found:
    """The networks of all runs by the data set they learned (all of them, or `learned`), trained and judged."""
    todo = [plan for own in settings.single_runs() for plan in plans(own) if not learned or plan.data.name in learned]
    every: list[Judged] = engine.map(partial(judged, store), todo, threads=settings.threads, gpus=1, label="X9")
    found: dict[str, list[Judged]] = {}
    for own in every:
        found.setdefault(own.name, []).append(own)
    return found


_NOTES = [
    "The paper trains ResNet18 for 100 epochs on all images, five times, and names no optimiser; ours is SGD with "
    "Nesterov momentum, a one-cycle rate with its peak at 0.1, weight decay 5e-4, crops of SVHN and CIFAR and mirrored "
    "CIFAR. Scale laptop shows fewer images for fewer epochs, as the table says line by line: its numbers are those of "
    "briefly trained networks.",
    "Each AUROC is of a balanced pair (as many OOD as test images, drawn by the run's seed), OOD positive, averaged "
    "over the OOD sets. U_density: full covariances, K components, EM from the classes, ridge 1e-5, on z after the "
    "non-linearity, as the paper found best.",
    "The paper's C equals its B in every digit of every line. Cooling by 10 reorders entropies even where nothing "
    "saturates (the part 'temperature' of cause 1, beside 'rounding'), so its C seems to be B wherever nothing "
    "saturated. Compare causes 1 and 2 together: D - B does not depend on C.",
    "A Gaussian takes what lies between the classes for likely: where OOD features are weak, so that norm(z) tells "
    "them, it can find them more familiar than test inputs (at scale laptop Mahalanobis does so on svhn, far "
    "below 50 %). At that scale a class of CIFAR-100 has 350 images for a covariance of 512 x 512. X8 searches other "
    "options on the same features.",
    NOTE,
    "The paper's cause 3 of c10 is printed as 0.7; its own column gives 10.7, which stands here. Its caption calls "
    "cause 1 dominant; its columns say cause 3 (T20).",
]
