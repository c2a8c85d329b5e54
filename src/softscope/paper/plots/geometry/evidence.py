"""Pictures of the evidence for T12, T15-T17 and T21, computed by the functions behind the checks."""

from typing import TYPE_CHECKING

import numpy as np

from ....geometry import density_region, entropy_region
from ....reporting.style import CLASS_COLOURS, CLASS_MARKERS, FAINT, INK, OOD, PAGE, new_figure
from ...claims import optimum as t12
from ...claims import order, volume
from ...claims.strength import equal_gaps_exponent, top_gap
from .regions import EPSILON, THREE_CLASSES, boundaries, ellipses, fill, fill_region, square

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def optimum() -> "Figure":
    """evidence_T12: descent to the simplex, and what the other structures lose."""
    figure = new_figure(PAGE, 2.6)
    left, right = figure.subplots(1, 2)
    sizes = (3, 5, 10)
    for k, (classes, line) in enumerate(zip(sizes, ("-", "--", ":"))):
        descent = t12.descend(classes, classes + 2, starts=6, rng=np.random.default_rng(classes), steps=400)
        least = t12.least_loss(classes)
        excess = np.maximum(descent.history - least, 1e-16)
        for one in excess.T:
            left.semilogy(one, ls=line, color=CLASS_COLOURS[k], lw=0.8)
        left.plot([], [], ls=line, color=CLASS_COLOURS[k], label=f"K = {classes}")
    left.set(
        xlabel="step of gradient descent", ylabel="loss above the proven minimum", title="a  six random starts each"
    )
    left.legend(loc="upper right")
    classes_shown = range(3, 11)
    losses = [t12.frozen_losses(k, np.random.default_rng(0)) for k in classes_shown]
    for k, name in enumerate(("sandwich", "stack", "lopsided")):
        lost = [row[name] - t12.least_loss(size) for row, size in zip(losses, classes_shown)]
        right.semilogy(list(classes_shown), lost, color=CLASS_COLOURS[k], marker=CLASS_MARKERS[k], ms=4, label=name)
    right.set(xlabel="classes K", ylabel="loss above the optimum", title="b  other structures at their own best")
    right.legend()
    return figure


def order_small() -> "Figure":
    """evidence_T15: max cos against confidence for three classes, and shares of discordant pairs."""
    rng, c = np.random.default_rng(0), 5.0
    figure = new_figure(PAGE, 2.8)
    left, right = figure.subplots(1, 2)
    cosines = order.draw_cosines(3, 3, 6000, rng)
    lead = cosines.max(axis=1)
    left.plot(
        lead,
        _confidence(cosines, c),
        ".",
        color=CLASS_COLOURS[0],
        ms=1.6,
        alpha=0.5,
        rasterized=True,
        label="z on the sphere, H = 3",
    )
    theta = np.linspace(0, np.pi / 3, 100)
    plane = np.cos(np.stack([theta, 2 * np.pi / 3 - theta, 2 * np.pi / 3 + theta], axis=1))
    left.plot(plane[:, 0], _confidence(plane, c), color=OOD, lw=2, label="z in the plane of the weights")
    line = np.linspace(0, 1, 200)
    left.plot(line, 1 / (1 + 2 * np.exp(-c * equal_gaps_exponent(line, 3))), "--", color=INK, lw=1, label="bound S2")
    left.set(
        xlabel="familiarity, max cos", ylabel="confidence $s_{max}$", title=f"a  K = 3, norm {c:g}", ylim=(0.3, 1.02)
    )
    left.legend(loc="lower right")
    norms = np.geomspace(0.1, 100, 13)
    for k, features in enumerate((2, 3, 16)):
        shares = [order.discordance(3, features, float(norm), 20_000, rng) for norm in norms]
        right.semilogx(norms, 100 * np.array(shares), color=CLASS_COLOURS[k], marker=CLASS_MARKERS[k], ms=3.5,
                       label=f"by max cos, H = {features}")  # fmt: skip
    gap = [order.discordance(3, 3, float(norm), 20_000, rng, top_gap) for norm in norms]
    right.semilogx(norms, 100 * np.array(gap), ":", color=INK, label="by the gap of the top two, H = 3")
    right.set(xlabel="norm(w) norm(z)", ylabel="discordant pairs, %", title="b  pairs ordered the wrong way")
    right.legend(loc="upper left")
    right.set_ylim(top=24)
    return figure


def order_large() -> "Figure":
    """evidence_T16: discordant pairs against norm and against the number of classes."""
    rng = np.random.default_rng(1)
    figure = new_figure(PAGE, 2.6)
    left, right = figure.subplots(1, 2)
    norms = np.geomspace(0.1, 100, 10)
    for k, (classes, features) in enumerate(((3, 16), (10, 64), (100, 512))):
        pairs = 20_000 if classes < 100 else 8_000
        shares = [order.discordance(classes, features, float(norm), pairs, rng) for norm in norms]
        left.semilogx(norms, 100 * np.array(shares), color=CLASS_COLOURS[k], marker=CLASS_MARKERS[k], ms=3.5,
                      label=f"K = {classes}, H = {features}")  # fmt: skip
    left.set(xlabel="norm(w) norm(z)", ylabel="discordant pairs, %", title="a  against the norm")
    left.legend(loc="upper left")
    sizes = np.array([3, 5, 10, 20, 50, 100])
    for k, norm in enumerate((1.0, 5.0, 20.0)):
        shares = [order.discordance(int(size), 4 * int(size), norm, 8_000, rng) for size in sizes]
        right.loglog(sizes, 100 * np.array(shares), color=CLASS_COLOURS[k], marker=CLASS_MARKERS[k], ms=3.5,
                     label=f"norm {norm:g}")  # fmt: skip
    right.set(xlabel="classes K (H = 4K)", ylabel="discordant pairs, %", title="b  against the number of classes")
    right.legend(loc="lower left")
    return figure


def volumes() -> "Figure":
    """evidence_T17: the linear regions of random structures against the optimal one, and the rival for K = 4."""
    rng = np.random.default_rng(2)
    figure = new_figure(PAGE, 2.7)
    left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))
    sizes = ((2, 2), (3, 2), (3, 3), (4, 3), (4, 8), (5, 8), (10, 16))
    for place, (classes, features) in enumerate(sizes):
        regions = volume.compare(classes, features, 3.0, 300, rng, volume.optimal_weights)
        spread = place + rng.uniform(-0.28, 0.28, len(regions.random))
        left.plot(spread, regions.random[:, 1], ".", color=CLASS_COLOURS[0], ms=1.8, alpha=0.6, rasterized=True)
        left.plot([place - 0.35, place + 0.35], [regions.optimal[1]] * 2, color=OOD, lw=2)
    left.plot([], [], ".", color=CLASS_COLOURS[0], label="300 random structures each")
    left.plot([], [], color=OOD, lw=2, label="optimal structure")
    left.set_xticks(range(len(sizes)), [f"{k}, {h}" for k, h in sizes])
    left.set(xlabel="K, H", ylabel="share of the ball of radius $2c_2$", title="a  linear regions", ylim=(0, 1.12))
    left.legend(loc="upper left", ncols=2)
    strengths = np.geomspace(1.2, 20, 16)
    for k, radius in enumerate((1.0, 2.0, 5.0)):
        gain = [volume.rival_gain(float(s), radius, points=12_000)[0] for s in strengths]
        right.semilogx(
            strengths, gain, color=CLASS_COLOURS[k], marker=CLASS_MARKERS[k], ms=3, label=f"radius {radius:g} $c_2$"
        )
    right.axhline(0.0, color=INK, lw=0.6)
    right.set_xticks([1, 2, 3, 5, 10, 20], ["1", "2", "3", "5", "10", "20"])
    right.minorticks_off()
    right.set(xlabel="strength norm(w) $c_2$", ylabel="two pairs less optimal", title="b  a rival for K = 4, H = 3")
    right.legend()
    return figure


def extrapolation() -> "Figure":
    """evidence_T21: density's region less softmax's is the extrapolation region; the four shares by separation."""
    head, mixture = THREE_CLASSES
    dense, soft = density_region(mixture, EPSILON), entropy_region(head, mixture, EPSILON)
    figure = new_figure(PAGE, 2.25)
    panels = figure.subplots(1, 4, width_ratios=(1, 1, 1, 1.25))
    reach = 4.4
    for axes, title in zip(panels, ("a  density flags", "b  softmax flags", "c  only density flags")):
        square(axes, reach, title)
        boundaries(axes, head, reach)
        ellipses(axes, mixture)
    fill_region(panels[0], dense, reach)
    fill_region(panels[1], soft, reach)
    fill(panels[2], lambda z: dense.contains(z) & ~soft.contains(z), reach)
    _shares_by_distance(panels[3])
    figure.legend(loc="outside lower right", ncols=4, handlelength=1.6)
    return figure


def _shares_by_distance(axes: "Axes") -> None:
    distances, rng = (1.0, 2.0, 4.0, 8.0), np.random.default_rng(4)
    shares = {d: [volume.four_shares(3, 2, d, "ball", rng) for _ in range(12)] for d in distances}
    base = np.zeros(len(distances))
    looks = (
        ("density_only", CLASS_COLOURS[0], ""),
        ("both", CLASS_COLOURS[1], "///"),
        ("softmax_only", OOD, "xxx"),
        ("neither", FAINT, "..."),
    )
    for name, colour, hatch in looks:
        height = np.array([100 * np.mean([getattr(one, name) for one in shares[d]]) for d in distances])
        axes.bar(
            range(len(distances)),
            height,
            bottom=base,
            color=colour,
            hatch=hatch,
            ec="white",
            lw=0.4,
            label=name.replace("_", " "),
        )
        base += height
    axes.set_xticks(range(len(distances)), [f"{d:g}" for d in distances])
    axes.set(xlabel="distance of class means", ylabel="% of points", title="d  who flags")


def _confidence(cosines: np.ndarray, c: float) -> np.ndarray:
    return 1 / (1 + np.exp(order.log_odds_of(cosines, c)))
