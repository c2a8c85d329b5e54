"""X9 (table_AUROC_bench, top; fig_grid_auroc; fig_cifar_etc): five data sets, each network against the other four."""

from .five_sets import FiveSettings, Recipe

SCALES = {
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
        runs=2,
    ),
    "paper": FiveSettings(runs=5),
}
