"""The geometry pictures: every one draws, has a caption that stands alone, and shows what the claims name."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Ellipse
from scipy.special import softmax
from scipy.stats import entropy, multivariate_normal, rankdata

from softscope.errors import SoftscopeError
from softscope.geometry import density_region, exact_region, linear_region, optimal_structure
from softscope.head import Head
from softscope.paper.claims import REGISTER
from softscope.paper.experiments import texts
from softscope.paper.plots.geometry import PICTURES, draw
from softscope.paper.plots.geometry.diagrams import _GENERAL
from softscope.paper.plots.geometry.regions import EPSILON, THREE_CLASSES, TWO_CLASSES
from softscope.reporting.style import to_png, to_svg


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_draws_as_png_and_svg_with_a_caption(name):
    figure, caption = draw(name), texts("X2")["captions"][name]
    assert to_png(figure).startswith(b"\x89PNG")
    assert b"<svg" in to_svg(figure)[:2000]
    assert len(caption) > 150
    assert caption.endswith(".")


def test_every_picture_that_a_claim_names_exists():
    assert {claim.picture for claim in REGISTER if claim.picture} <= set(PICTURES)


def test_an_unknown_picture_is_named():
    with pytest.raises(SoftscopeError, match="fig_none"):
        draw("fig_none")


def test_a_picture_drawn_twice_is_the_same():
    first, second = (to_svg(draw("fig_derviative_k3")) for _ in range(2))
    assert first == second


def test_the_vector_field_of_density_points_away_from_the_nearest_cluster():
    from softscope.geometry import density_field
    from softscope.paper.plots.geometry.regions import THREE_CLASSES

    _, mixture = THREE_CLASSES
    far = 6.0 * mixture.means / np.linalg.norm(mixture.means, axis=1, keepdims=True)
    field = density_field(mixture.weights, mixture.means, mixture.covariances, far)
    assert ((field * (far - mixture.means)).sum(axis=1) > 0).all()


picture = cache(draw)


def titles(name: str) -> list[str]:
    return [axes.get_title(loc="left") for axes in picture(name).axes]


def arrows(axes: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Start and end of every arrow, in the order of drawing."""
    return [(np.array(text.xyann), np.array(text.xy)) for text in axes.texts if getattr(text, "arrowprops", None)]


def filled(axes: Any, points: np.ndarray) -> np.ndarray:
    """Which points the first coloured area covers."""
    (path,) = axes.collections[0].get_paths()
    rings = path.to_polygons(closed_only=True)
    from matplotlib.path import Path

    return np.sum([Path(ring).contains_points(points) for ring in rings], axis=0) % 2 == 1


def test_each_estimator_is_flagged_in_its_own_region(rng):
    """fig_valid_ood_region: where the orange lies, for two classes and for three."""
    axes = picture("fig_valid_ood_region").axes
    assert titles("fig_valid_ood_region") == [
        "a  $K=2$: $U_{max}$, $U_{entropy}$",
        "b  $K=2$: $U_{density}$",
        "c  $K=3$: $U_{max}$, linear",
        "d  $K=3$: $U_{density}$",
    ]
    points = rng.uniform(-4.3, 4.3, (3000, 2))
    for panel, mixture in ((axes[1], TWO_CLASSES[1]), (axes[3], THREE_CLASSES[1])):
        assert np.mean(filled(panel, points) == density_region(mixture, EPSILON).contains(points)) > 0.995
        means = [tuple(patch.center) for patch in panel.patches if isinstance(patch, Ellipse)]
        np.testing.assert_allclose(means, mixture.means)
    for panel, (head, mixture) in ((axes[0], TWO_CLASSES), (axes[2], THREE_CLASSES)):
        confidence = softmax(head.logits(mixture.sample(4000, rng)[0]), axis=1).max(axis=1)
        least = np.quantile(confidence, EPSILON)  # a share epsilon of the training inputs is less confident
        logits = np.sort(head.logits(points), axis=1)
        if head.n_classes == 2:
            inside = softmax(head.logits(points), axis=1).max(axis=1) < least
        else:
            inside = logits[:, -1] - logits[:, -2] < np.log(least / (1 - least))
        assert np.mean(filled(panel, points) == inside) > 0.98


def test_the_optimal_structure_stands_beside_a_general_one_with_its_share_of_the_disc(rng):
    figure = picture("fig_optimal")
    assert titles("fig_optimal") == ["optimal structure", "general structure"]
    disc = rng.normal(size=(40_000, 2))
    disc *= 2 * np.sqrt(rng.uniform(size=(40_000, 1))) / np.linalg.norm(disc, axis=1, keepdims=True)
    for axes, turns in zip(figure.axes, ([120, 120, 120], [70, 135, 155])):
        tips = np.array([end for _, end in arrows(axes)])
        np.testing.assert_allclose(np.linalg.norm(tips, axis=1), 1.0)
        angles = np.sort(np.degrees(np.arctan2(tips[:, 1], tips[:, 0])) % 360)
        np.testing.assert_allclose(np.sort(np.diff([*angles, angles[0] + 360])), turns, atol=1e-6)
        odds = 3 * tips @ tips.T
        own = [row[i] - np.logaddexp.reduce(np.delete(row, i)) for i, row in enumerate(odds)]
        share = linear_region(Head(3 * tips), min(own)).contains(disc).mean()
        words, _, rest = axes.get_xlabel().partition("%")
        assert float(words) == pytest.approx(100 * share, abs=1.5)
        assert rest == " of the disc of radius $2c_2$"


def test_each_field_shows_how_its_own_uncertainty_rises_on_a_ground_of_its_ranks():
    head, mixture = THREE_CLASSES
    parts = [multivariate_normal(m, c) for m, c in zip(mixture.means, mixture.covariances)]
    scores = {
        "$U_{max}$": lambda z: -softmax(head.logits(z), axis=1).max(axis=1),
        "$U_{entropy}$": lambda z: entropy(softmax(head.logits(z), axis=1), axis=1),
        "$U_{density}$": lambda z: -np.log(np.mean([part.pdf(z) for part in parts], axis=0)),
    }
    assert titles("fig_vecfield") == list(scores)
    for axes, score in zip(picture("fig_vecfield").axes, scores.values()):
        ground, field = axes.collections[:2]
        x, y = field.XY.T
        near = np.hypot(x, y) < 2.2  # far out softmax is flat
        step = 1e-5 * np.eye(2)
        slopes = np.stack([score(field.XY + own) - score(field.XY - own) for own in step], axis=1)[near]
        drawn = np.column_stack([field.U, field.V])[near]
        cosines = (slopes * drawn).sum(axis=1) / np.linalg.norm(slopes, axis=1) / np.linalg.norm(drawn, axis=1)
        assert np.median(cosines) > 0.9999
        corners = np.asarray(ground.get_coordinates())
        centres = (corners[:-1, :-1] + corners[1:, 1:]).reshape(-1, 2) / 2
        inner = np.hypot(*centres.T) < 2.2
        shown, truth = np.asarray(ground.get_array()).ravel()[inner], score(centres[inner])
        assert np.corrcoef(rankdata(shown), rankdata(truth))[0, 1] < -0.999, "bright: confident"


def test_pairs_of_hyperplanes_are_twice_alpha_apart():
    """fig_geom_linearapprox: alpha_ij norm(w_i - w_j) = logit(t) / norm(w_i - w_j) to each side of the boundary."""
    (axes,) = picture("fig_geom_linearapprox").axes
    gaps = {(i, j): np.linalg.norm(_GENERAL[i] - _GENERAL[j]) for i, j in ((0, 1), (0, 2), (1, 2))}
    for (start, end), ((i, j), gap) in zip(arrows(axes), gaps.items()):
        assert np.linalg.norm(end - start) == pytest.approx(2 * 1.6 / gap)
        assert (_GENERAL[i] - _GENERAL[j]) @ (start + end) == pytest.approx(0, abs=1e-9), (
            "its middle is on the boundary"
        )
    names = [text.get_text() for text in axes.texts if text.get_text()]
    assert names[:3] == [f"$2\\alpha_{{{i + 1}{j + 1}}}\\,\\|w_{i + 1}-w_{j + 1}\\|$" for i, j in gaps]
    assert names[3:] == ["$w_1$", "$w_2$", "$w_3$"]
    np.testing.assert_allclose([end for _, end in arrows(axes)][3:], _GENERAL)


def test_a_point_is_two_steps_one_along_the_boundary_and_one_along_the_difference():
    """fig_vector_geom: z = beta d_12 + alpha (w_1 - w_2); right, what the linear offset leaves out."""
    left, right = picture("fig_vector_geom").axes
    (_, along), (base, end), (_, z) = arrows(left)[3:]
    normal = _GENERAL[0] - _GENERAL[1]
    assert normal @ along == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(base, along)
    np.testing.assert_allclose(end, z)
    np.testing.assert_allclose((end - base) / normal, [0.55, 0.55])
    assert (_GENERAL @ along).argsort()[0] == 2, "classes 1 and 2 lead there"
    assert titles("fig_vector_geom") == ["a  one point, two steps", "b  the difference vanishes"]
    assert right.get_xlabel() == "distance along the boundary, $\\beta$"
    distance, excess = right.lines[0].get_data()
    unit = along / np.linalg.norm(along)
    for beta, own in list(zip(distance, excess))[:30:10]:
        z = beta * unit + (own + 1.6 / (normal @ normal)) * normal
        confidence = -exact_region(Head(_GENERAL), 1.6).uncertainty(z[None])[0]
        assert confidence == pytest.approx(1.6, abs=1e-6), "logit(t) at the edge"
    rates = [np.polyfit(distance[20:], np.log(line.get_ydata()[20:]), 1)[0] for line in right.lines]
    assert rates[0] == pytest.approx(rates[1], rel=0.01), "it falls as the dashed line says"


def test_the_slope_is_that_of_confidence_for_three_classes_in_the_plane():
    """fig_derviative_k3, against differences of the softmax itself."""
    (axes,) = picture("fig_derviative_k3").axes
    weight = optimal_structure(3, 2).weight

    def confidence(theta: np.ndarray, c: float) -> np.ndarray:
        turned = np.stack([[np.cos(t), np.sin(t)] for t in theta])
        first, third = weight[0], np.array([-weight[0, 1], weight[0, 0]])
        return softmax(c * (turned[:, :1] * first + turned[:, 1:] * third) @ weight.T, axis=1)[:, 0]

    *curves, zero = axes.lines
    assert [line.get_label() for line in curves] == ["0.5", "1", "2", "5", "10"]
    for line, c in zip(curves, (0.5, 1.0, 2.0, 5.0, 10.0)):
        degrees, slope = line.get_data()
        theta = np.radians(degrees)
        rise = confidence(theta + 1e-6, c) - confidence(theta - 1e-6, c)
        np.testing.assert_allclose(slope, rise / (np.cos(theta + 1e-6) - np.cos(theta - 1e-6)), rtol=1e-5, atol=1e-7)
    assert set(zero.get_ydata()) == {0.0}
    assert axes.get_xlabel() == "angle to the leading weight, $\\theta$ (degrees)"
    assert axes.get_ylabel() == "$d\\,s_{max}\\,/\\,d\\cos\\theta$"


def test_moving_straight_loses_confidence_and_another_pair_gains_it_with_a_lower_cosine():
    """fig_costheta_diag_w2: the words of the legend follow from the dots, which lie on exp(c x)."""
    told = []
    for axes in picture("fig_costheta_diag_w2").axes:
        for line in axes.lines[1:]:
            gaps, terms = (np.asarray(values, float) for values in line.get_data())
            np.testing.assert_allclose(terms, np.exp(5.0 * gaps))
            name, _, words = line.get_label().partition(": max cos ")
            cosine = float(words.split(",")[0])
            # the ten cosines of the optimal structure add up to 0
            assert cosine == pytest.approx(-gaps.sum() / 10, abs=0.006)
            assert f"sum {terms.sum():.3f}, $s_{{max}}$ {1 / (1 + terms.sum()):.3f}" in words
            told.append((name, cosine, 1 / (1 + terms.sum())))
    (a, before, sure), (b, after, less), (c, high, low), (d, lower, more) = told
    assert (a, b, c, d) == ("before", "after", "before", "after")
    assert after < before
    assert less < sure
    assert lower < high
    assert more > low
    assert titles("fig_costheta_diag_w2") == ["a  straight from $w_1$ towards $w_2$", "b  a pair ordered the other way"]
