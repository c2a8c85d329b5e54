"""The register of experiments: the paper's ids and figure labels, and the module behind each, imported when asked for.

A module of this room holds `SCALES` (the settings of "smoke", "laptop", for some "overnight", and "paper") and
`run(settings, store, engine)`.
A new experiment is one line in `REGISTER`.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from ...errors import SoftscopeError
from ...lazy import lazily

if TYPE_CHECKING:
    from .base import Experiment
    from .base import reproduce as reproduce
    from .verdict import Row as Row

__getattr__ = lazily(__name__, {"base": ("reproduce",), "verdict": ("Row",)})


@dataclass(frozen=True)
class Entry:
    """One line of the register: `figures` are the labels in the paper's source that the experiment stands for."""

    id: str
    figures: tuple[str, ...]
    title: str
    module: str


REGISTER = (
    Entry("X1a", ("fig_2d",), "2-D toy: confidence far from the training data", "x01_toy"),
    Entry("X1b", ("fig_2d",), "three digits against Fashion-MNIST: confidence over the final layer", "x01_mnist"),
    Entry(
        "X2",
        (
            "fig_valid_ood_region",
            "fig_optimal",
            "fig_vecfield",
            "fig_geom_linearapprox",
            "fig_vector_geom",
            "fig_derviative_k3",
            "fig_costheta_diag_w2",
        ),
        "the geometry of softmax confidence",
        "x02_geometry",
    ),
    Entry("X3", ("fig_weight_analysis",), "last layers beside the optimal structure", "x03_weights"),
    Entry(
        "X4",
        ("fig_counterfact_structs", "fig_weird_structures_pca"),
        "last layers frozen in worse structures",
        "x04_structures",
    ),
    Entry(
        "X5",
        ("fig_activation_mnsit_fashion", "fig_ankle_boots"),
        "final-layer activations of familiar and OOD inputs",
        "x05_activations",
    ),
    Entry("X6", ("fig_noise",), "the whole input space through the filter", "x06_filter"),
    Entry("X7", ("fig_depth_experiment",), "depth against OOD detection", "x07_depth"),
    Entry("X8", ("sec_app_exp_standard_bench",), "the density's options, searched", "x08_density"),
    Entry(
        "X9",
        ("table_AUROC_bench", "fig_grid_auroc", "fig_cifar_etc"),
        "five data sets, each against the other four",
        "x09_five_sets",
    ),
    Entry(
        "X10",
        ("table_AUROC_bench", "table_transferdatasets"),
        "pre-trained networks: does pre-training remove feature overlap?",
        "x10_pretrained",
    ),
    Entry("X11", ("table_reported_results",), "what the literature reports, beside our networks", "x11_literature"),
    Entry("X12", ("remedies",), "a dial for each cause, and what each remedy does about it", "x12_remedies"),
    Entry("X13", ("leaderboard",), "every score on every pair: which one to use", "x13_leaderboard"),
    Entry("X14", ("transformer",), "a small vision transformer: features without a ReLU", "x14_transformer"),
)


def find(name: str) -> list[Entry]:
    """The experiments that `name` means: 'all', an id (X1a), the start of ids (X1: X1a and X1b), or a figure label."""
    wanted = name.strip().casefold()
    if wanted == "all":
        return list(REGISTER)
    exact = [entry for entry in REGISTER if wanted == entry.id.casefold()]
    named = exact or [entry for entry in REGISTER if wanted in _other_names(entry)]
    if not named:
        known = ", ".join(f"{entry.id} ({', '.join(entry.figures)})" for entry in REGISTER)
        raise SoftscopeError(f"no experiment is called {name!r}", f"Known: all, {known}")
    return named


def load(entry: Entry) -> "Experiment":
    """The experiment itself."""
    from .base import Experiment

    module = import_module(f".{entry.module}", __name__)
    return Experiment(entry.id, entry.figures, entry.title, module.SCALES, module.run)


def _other_names(entry: Entry) -> set[str]:
    return {entry.id.rstrip("abcdefgh").casefold(), *(figure.casefold() for figure in entry.figures)}
