"""The options of X8, exactly as the paper lists them."""

from collections import Counter
from dataclasses import asdict

import pytest

from softscope import Density, SoftscopeError
from softscope.tuning.options import Draw, draws, grid, kernel_settings, neuron_choices, paper_setting

H = 512


def every(layers=("before", "after")):
    return [setting for draw in draws(H, 1000, 0, layers=layers) for setting in grid(draw)]


def test_the_first_four_options_have_48_combinations_none_twice():
    drawn = draws(H, 1000, 3)
    assert len(drawn) == len(set(drawn)) == 48
    assert {draw.fit for draw in drawn} == {"classes", "em"}
    assert {draw.neurons for draw in drawn} == {100, 256, 512}
    assert {draw.ridge for draw in drawn} == {1e-1, 1e-3, 1e-5, 1e-7}
    assert {draw.layer for draw in drawn} == {"before", "after"}


def test_the_grid_has_three_covariances_z_and_log_z_and_four_numbers_of_components():
    settings = grid(Draw("em", H, 1e-5, "after"))
    assert len(settings) == len(set(settings)) == 24
    assert {one.covariance for one in settings} == {"full", "diagonal", "spherical"}
    assert {one.transform for one in settings} == {"none", "log"}
    assert {one.components for one in settings} == {"1", "K", "10", "100"}
    assert sorted(one.count(7) for one in settings if (one.covariance, one.transform) == ("full", "none")) == [
        1,
        7,
        10,
        100,
    ]


def test_log_z_is_only_taken_after_the_non_linearity_and_one_a_class_only_with_K_components():
    settings = every()
    assert not [one for one in settings if one.layer == "before" and one.transform == "log"]
    assert {one.components for one in settings if one.fit == "classes"} == {"K"}
    assert Counter(one.fit for one in settings) == {"em": 12 * 36, "classes": 12 * 9}


def test_the_paper_comes_first_then_whatever_differs_from_it_in_one_option_then_a_seeded_order():
    first, *rest = draws(H, 48, 0)
    assert first == Draw("em", H, 1e-5, "after")
    assert paper_setting(H) in grid(first)
    apart = [sum(asdict(one)[name] != asdict(first)[name] for name in asdict(one)) for one in rest]
    assert apart[:7] == [1] * 7
    assert min(apart[7:]) == 2
    assert draws(H, 48, 0) == [first, *rest]
    assert draws(H, 48, 1)[:8] == [first, *rest[:7]]
    assert draws(H, 48, 1) != [first, *rest]
    assert draws(H, 10, 0) == [first, *rest][:10]


def test_features_other_than_512_take_what_fits_and_all():
    assert neuron_choices(16) == (16,)
    assert neuron_choices(256) == (100, 256)
    assert neuron_choices(1280) == (100, 256, 512, 1280)


def test_without_features_before_the_non_linearity_there_are_24_draws_and_fewer_kernels():
    assert len(draws(H, 1000, 0, layers=("after",))) == 24
    assert len(kernel_settings(("after",))) == 6
    assert len(kernel_settings()) == 9


def test_the_papers_setting_is_what_density_does_by_default():
    assert paper_setting(H).arguments(H, seed=3) == {}
    tuned = paper_setting(H, fine_tuned=True).arguments(H, seed=3)
    assert Density(**tuned).params() == Density(ridge=1e-3, transform="log").params()


def test_no_settings_at_all_are_refused():
    with pytest.raises(SoftscopeError, match="at least 1"):
        draws(H, 0, 0)
