"""Drawings of the proofs, and of the evidence for T12, T15-T17 and T21, by the functions behind the checks."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ....arrays import Floats
from ....geometry import density_region, entropy_region, exact_region, linear_region, simplex
from ....head import Head
from ....reporting.style import CLASS_COLOURS, COLUMN, FAINT, INK, OOD, PAGE, class_look, new_figure
from ...claims import optimum as t12
from ...claims import order, volume
from ...claims.linear import edge_offset, pair_offset
from ...claims.order import equal_gaps_exponent, top_gap
from .regions import (
    EPSILON,
    THREE_CLASSES,
    arrow,
    boundaries,
    ellipses,
    fill,
    fill_region,
    note,
    outline,
    square,
    weights,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GENERAL = np.array([[1.1, 0.55], [-0.75, 0.95], [-0.1, -1.0]])


def linear_approximation() -> "Figure":
    """fig_geom_linearapprox: pairs of hyperplanes around each boundary, and the exact region."""
    reach, logit_t = 3.4, 1.6
    head = Head(_GENERAL)
    figure = new_figure(COLUMN, 3.3)
    axes = figure.subplots()
    square(axes, reach)
    fill_region(axes, linear_region(head, logit_t), reach)
    outline(axes, exact_region(head, logit_t), reach, colors=[INK], linewidths=1.0, linestyles="dashed")
    boundaries(axes, head, reach)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        normal = _GENERAL[i] - _GENERAL[j]
        along = _leading_direction(head, i, j)
        middle = 2.65 * along
        half = logit_t / (normal @ normal) * normal
        arrow(axes, middle - half, middle + half, color=OOD, width=1.0, both=True)
        note(axes, f"$2\\alpha_{{{i + 1}{j + 1}}}\\,\\|w_{i + 1}-w_{j + 1}\\|$", middle - 0.5 * along, color=OOD)
    weights(axes, head)
    return figure


def vector_geometry() -> "Figure":
    """fig_vector_geom: z = beta d_12 + alpha (w_1 - w_2), and how fast the exact region becomes the linear one."""
    head, logit_t, reach = Head(_GENERAL), 1.6, 3.4
    figure = new_figure(PAGE, 2.9)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    square(left, reach, "a  one point, two steps")
    boundaries(left, head, reach)
    outline(left, exact_region(head, logit_t), reach, colors=[INK], linewidths=0.9, linestyles="dashed")
    weights(left, head)
    normal, along = _GENERAL[0] - _GENERAL[1], _leading_direction(head, 0, 1)
    base, step = 2.1 * along, 0.55 * normal
    arrow(left, (0, 0), base, color=OOD)
    arrow(left, base, base + step, color=OOD)
    arrow(left, (0, 0), base + step)
    note(left, r"$\beta\,d_{12}$", 0.62 * base + [-0.5, 0.1], color=OOD)
    note(left, r"$\alpha(w_1-w_2)$", base + 0.5 * step + [0.25, 0.5], color=OOD)
    note(left, "$z$", base + step + [0.25, 0.12])
    _excess_against_distance(right)
    return figure


def derivative() -> "Figure":
    """fig_derviative_k3: the derivative of s_max by cos(theta), which is positive."""
    figure = new_figure(COLUMN, 2.5)
    axes = figure.subplots()
    theta = np.linspace(0.004, np.pi / 3 - 1e-4, 400)
    for c, line in zip((0.5, 1.0, 2.0, 5.0, 10.0), ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))):
        axes.plot(np.degrees(theta), order.slope_in_plane(theta, c), ls=line, label=f"{c:g}")
    axes.axhline(0.0, color=INK, lw=0.6)
    axes.set(
        xlabel=r"angle to the leading weight, $\theta$ (degrees)", ylabel=r"$d\,s_{max}\,/\,d\cos\theta$", xlim=(0, 60)
    )
    axes.set_ylim(bottom=-0.1)
    axes.legend(title=r"$\|w\|\,\|z\|$", ncols=2)
    return figure


def budget() -> "Figure":
    """fig_costheta_diag_w2: the terms of the paper's inequality on the exponential curve, and where it fails."""
    classes, c = 10, 5.0
    weight = simplex(classes)
    turn = weight[1] - (weight[0] @ weight[1]) * weight[0]
    turn = turn / np.linalg.norm(turn)
    path = [np.cos(a) * weight[0] + np.sin(a) * turn for a in np.radians([15.0, 32.0])]
    before, after = (point @ weight.T for point in path)
    figure = new_figure(PAGE, 2.7)
    left, right = figure.subplots(1, 2, sharey=True)
    _on_the_curve(left, before, after, c, "a  straight from $w_1$ towards $w_2$")
    _on_the_curve(right, *_discordant_pair(classes, c), c, "b  a pair ordered the other way")
    left.set_ylabel(r"$\exp\,c(\cos_j-\cos_1)$")
    return figure


def _on_the_curve(axes: "Axes", before: Floats, after: Floats, c: float, title: str) -> None:
    line = np.linspace(-1.3, 0.0, 200)
    axes.plot(line, np.exp(c * line), color=FAINT, lw=0.9)
    for cosines, face, name in ((before, "white", "before"), (after, CLASS_COLOURS[0], "after")):
        others = np.sort(cosines)[::-1]
        gaps = others[1:] - others[0]
        total = float(np.exp(c * gaps).sum())
        axes.plot(
            gaps, np.exp(c * gaps), "o", mfc=face, mec=CLASS_COLOURS[0], ms=4.5, ls="none",
            label=f"{name}: max cos {others[0]:.2f}, sum {total:.3f}, $s_{{max}}$ {1 / (1 + total):.3f}",
        )  # fmt: skip
    axes.set(xlabel=r"$\cos_j-\cos_1$", title=title, xlim=(-1.3, 0.02), ylim=(-0.02, 1.15))
    axes.legend(loc="upper left")


def _discordant_pair(classes: int, c: float) -> tuple[Floats, Floats]:
    """Of many random points the pair with max cos lower and s_max higher by the most."""
    cosines = order.draw_cosines(classes, classes, 4000, np.random.default_rng(3))
    lead, confidence = cosines.max(axis=1), _confidence(cosines, c)
    gain = np.where(lead[:, None] > lead[None, :] + 0.03, confidence[None, :] - confidence[:, None], -1.0)
    more, less = np.unravel_index(gain.argmax(), gain.shape)
    return cosines[more], cosines[less]


def _excess_against_distance(axes: "Axes") -> None:
    distance = np.linspace(0.0, 12.0, 60)
    normal, along = _GENERAL[0] - _GENERAL[1], _leading_direction(Head(_GENERAL), 0, 1)
    linear = pair_offset(_GENERAL[0], _GENERAL[1], 1.6)
    delta = float((_GENERAL[0] - _GENERAL[2]) @ along)
    excess = np.array([edge_offset(_GENERAL, beta * along, normal, 0, 1.6) - linear for beta in distance])
    axes.semilogy(distance, excess, color=CLASS_COLOURS[0], label="exact less linear offset $\\alpha$")
    axes.semilogy(distance, excess[-1] * np.exp(delta * (distance[-1] - distance)), "--", color=INK, lw=0.9,
                  label=rf"$\propto e^{{-\beta\delta}}$, $\delta$ = {delta:.2f}")  # fmt: skip
    axes.set(xlabel=r"distance along the boundary, $\beta$", title="b  the difference vanishes")
    axes.legend()


def _leading_direction(head: Head, i: int, j: int) -> Floats:
    """The unit vector along the boundary of i and j, in the direction in which these two lead."""
    normal = np.asarray(head.weight[i] - head.weight[j], np.float64)
    along = np.array([-normal[1], normal[0]]) / float(np.linalg.norm(normal))
    third = np.delete(np.arange(3), [i, j])[0]
    return along * float(np.sign((head.weight[i] - head.weight[third]) @ along))


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
        right.semilogy(list(classes_shown), lost, **class_look(k), ms=4, label=name)
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
    dots: dict[str, Any] = {"color": CLASS_COLOURS[0], "ms": 1.6, "alpha": 0.5, "rasterized": True}
    left.plot(lead, _confidence(cosines, c), ".", **dots, label="z on the sphere, H = 3")
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
        right.semilogx(norms, 100 * np.array(shares), **class_look(k), ms=3.5, label=f"by max cos, H = {features}")
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
        left.semilogx(norms, 100 * np.array(shares), **class_look(k), ms=3.5, label=f"K = {classes}, H = {features}")
    left.set(xlabel="norm(w) norm(z)", ylabel="discordant pairs, %", title="a  against the norm")
    left.legend(loc="upper left")
    sizes = np.array([3, 5, 10, 20, 50, 100])
    for k, norm in enumerate((1.0, 5.0, 20.0)):
        shares = [order.discordance(int(size), 4 * int(size), norm, 8_000, rng) for size in sizes]
        right.loglog(sizes, 100 * np.array(shares), **class_look(k), ms=3.5, label=f"norm {norm:g}")
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
        right.semilogx(strengths, gain, **class_look(k), ms=3, label=f"radius {radius:g} $c_2$")
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
        height = np.array([100 * np.mean([one[name] for one in shares[d]]) for d in distances])
        look: dict[str, Any] = {"color": colour, "hatch": hatch, "ec": "white", "lw": 0.4}
        axes.bar(range(len(distances)), height, bottom=base, label=name.replace("_", " "), **look)
        base += height
    axes.set_xticks(range(len(distances)), [f"{d:g}" for d in distances])
    axes.set(xlabel="distance of class means", ylabel="% of points", title="d  who flags")


def _confidence(cosines: Floats, c: float) -> Floats:
    return 1 / (1 + np.exp(order.log_odds_of(cosines, c)))
