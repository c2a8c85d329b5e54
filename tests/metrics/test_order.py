"""Sorting and counting: the compiled loops against numpy, on what makes radix sorts hard."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from softscope.metrics import compiled, order

FLOATS = arrays(np.float64, st.integers(1, 60), elements=st.floats(allow_nan=False))


@pytest.fixture
def from_the_first(monkeypatch):
    monkeypatch.setattr(order, "COMPILED_FROM", 0)


def hard_cases():
    generator = np.random.default_rng(0)
    yield "normal", generator.normal(size=5000)
    yield "tied", generator.normal(size=5000).round(1)
    yield "equal", np.full(5000, -1.0)
    yield "one", np.array([2.5])
    yield (
        "saturated with an outlier, beyond the insertion's moves",
        np.append(1 + generator.random(5000) * 1e-12, -1e300),
    )
    yield "from denormal to huge", generator.normal(size=5000) * 10.0 ** generator.integers(-320, 300, 5000)
    yield "infinite", np.append(generator.normal(size=5000), [np.inf, -np.inf, np.inf])
    yield "descending", np.arange(5000.0)[::-1].copy()
    yield "single precision", generator.normal(size=5000).astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("scores", [pytest.param(scores, id=name) for name, scores in hard_cases()])
def test_hard_cases_are_sorted_as_numpy_sorts_them(from_the_first, scores):
    before = scores.copy()
    np.testing.assert_array_equal(order.sort(scores), np.sort(scores))
    np.testing.assert_array_equal(scores, before)


@given(FLOATS)
def test_any_scores_are_sorted_as_numpy_sorts_them(scores):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "COMPILED_FROM", 0)
        np.testing.assert_array_equal(order.sort(scores), np.sort(scores))


@given(FLOATS, FLOATS)
def test_counts_are_those_of_searchsorted(scores, queries):
    scores, queries = np.sort(np.append(scores, queries[:3])), np.sort(queries)
    below, upto = compiled.count(scores, queries)
    np.testing.assert_array_equal(below, np.searchsorted(scores, queries, "left"))
    np.testing.assert_array_equal(upto, np.searchsorted(scores, queries, "right"))


@given(FLOATS, FLOATS)
def test_placements_are_those_of_numpy(low, high):
    low, high = np.sort(np.append(low, high[:3])), np.sort(high)
    total, *squares = compiled.placements(low, high)
    expected, *expected_squares = order.placements(low, high)
    assert total == expected
    assert squares == pytest.approx(expected_squares, rel=1e-12, abs=1e-9)


def test_without_numba_large_inputs_still_work(from_the_first, monkeypatch):
    monkeypatch.setitem(sys.modules, "softscope.metrics.compiled", None)
    monkeypatch.delattr("softscope.metrics.compiled")
    np.testing.assert_array_equal(order.sort(np.array([3.0, 1.0, 2.0])), [1.0, 2.0, 3.0])


def test_small_inputs_import_neither_numba_nor_scipys_statistics():
    program = (
        "import sys, numpy; from softscope.metrics import auroc; auroc(numpy.zeros(9), numpy.ones(9));"
        "print([name for name in ('numba', 'sklearn', 'scipy.stats', 'torch') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
