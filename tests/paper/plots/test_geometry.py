"""The geometry pictures: every one draws, has a caption that stands alone, and shows what the claims name."""

import numpy as np
import pytest

from softscope.errors import SoftscopeError
from softscope.paper.claims import REGISTER
from softscope.paper.experiments import texts
from softscope.paper.plots.geometry import PICTURES, draw
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
