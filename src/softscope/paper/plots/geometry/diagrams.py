"""fig_geom_linearapprox, fig_vector_geom, fig_derviative_k3 and fig_costheta_diag_w2: the drawings of the proofs."""

from typing import TYPE_CHECKING

import numpy as np

from ....arrays import Floats
from ....geometry import exact_region, linear_region, simplex
from ....head import Head
from ....reporting.style import CLASS_COLOURS, COLUMN, FAINT, INK, OOD, PAGE, new_figure
from ...claims.order import draw_cosines, log_odds_of, slope_in_plane
from .regions import arrow, boundaries, fill_region, note, outline, square, weights

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
        note(axes, f"$2\\alpha_{{{i + 1}{j + 1}}}\\,\\|w_{i + 1}-w_{j + 1}\\|$", tuple(middle - 0.5 * along), color=OOD)
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
    note(left, r"$\beta\,d_{12}$", tuple(0.62 * base + np.array([-0.5, 0.1])), color=OOD)
    note(left, r"$\alpha(w_1-w_2)$", tuple(base + 0.5 * step + np.array([0.25, 0.5])), color=OOD)
    note(left, "$z$", tuple(base + step + np.array([0.25, 0.12])))
    _excess_against_distance(right)
    return figure


def derivative() -> "Figure":
    """fig_derviative_k3: the derivative of s_max by cos(theta), which is positive."""
    figure = new_figure(COLUMN, 2.5)
    axes = figure.subplots()
    theta = np.linspace(0.004, np.pi / 3 - 1e-4, 400)
    for c, line in zip((0.5, 1.0, 2.0, 5.0, 10.0), ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))):
        axes.plot(np.degrees(theta), slope_in_plane(theta, c), ls=line, label=f"{c:g}")
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
    cosines = draw_cosines(classes, classes, 4000, np.random.default_rng(3))
    lead, u_max = cosines.max(axis=1), log_odds_of(cosines, c)
    confidence = 1 / (1 + np.exp(u_max))
    gain = np.where(lead[:, None] > lead[None, :] + 0.03, confidence[None, :] - confidence[:, None], -1.0)
    more, less = np.unravel_index(gain.argmax(), gain.shape)
    return cosines[more], cosines[less]


def _excess_against_distance(axes: "Axes") -> None:
    from ...claims.linear import edge_offset, pair_offset

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
