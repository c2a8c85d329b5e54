"""What the paper prints of X9: table_AUROC_bench (top), and the two pairs of fig_grid_auroc that its text names.

Cause 3 of c10 is 10.7 here: the table prints 0.7, a slip, since its own column D is 89.3 (T20).
"""

from .base import Reported

#: name of a column -> its heading; the scores are those of `Judged.auroc`, the causes those of `Judged.cause`.
SCORES = {"plain-max": "U_max", "plain-entropy": "U_entropy", "cool": "U_cool", "density": "U_density"}
CAUSES = {"saturation": "cause 1", "extrapolation": "cause 2", "overlap": "cause 3"}
COLUMNS = {"accuracy": "accuracy", **SCORES, **CAUSES}
RUNS = 5
OVERLAP_OUTWEIGHS = 3  # data sets whose cause 3 exceeds cause 2: svhn, c10, c100


def line(scores: tuple[float, ...], errors: tuple[float, ...] | None, causes: tuple[float, ...]) -> dict[str, Reported]:
    """A line of the table: accuracy (where it has one) and four AUROCs with their standard errors, three causes."""
    names = ("accuracy", *SCORES)[-len(scores) :]
    spreads = errors or (None,) * len(scores)
    found = {name: Reported(value, error) for name, value, error in zip(names, scores, spreads)}
    return found | {name: Reported(value) for name, value in zip(CAUSES, causes)}


TABLE = {
    "mnist": line((99.6, 96.3, 96.3, 96.3, 99.5), (0.0, 1.1, 1.1, 1.1, 0.1), (0.0, 3.2, 0.5)),
    "fashion_mnist": line((94.5, 87.4, 88.7, 88.7, 98.5), (0.1, 1.1, 1.1, 1.1, 0.3), (0.0, 9.7, 1.5)),
    "svhn": line((96.4, 90.7, 90.9, 90.9, 93.2), (0.1, 0.6, 0.6, 0.6, 0.2), (0.0, 2.3, 6.8)),
    "cifar10": line((93.5, 85.4, 85.7, 85.7, 89.3), (0.1, 1.1, 1.1, 1.1, 0.4), (0.0, 3.6, 10.7)),
    "cifar100": line((72.0, 78.6, 80.6, 80.6, 82.5), (0.4, 0.5, 0.5, 0.5, 0.6), (0.0, 2.0, 17.5)),
}
MEAN = line((87.7, 88.4, 88.4, 92.6), None, (0.0, 4.2, 7.4))
#: (learned, OOD) -> AUROC of U_max, and how near "agrees" is: the second is printed as "around 94".
PAIRS = {("cifar10", "mnist"): (Reported(82.2), None), ("mnist", "fashion_mnist"): (Reported(94.0), 1.0)}
