"""Fused scores: compiled and numpy paths agree, rows are independent, memory is bounded, bad rows are named."""

import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from softscope.compiling import exp
from softscope.errors import SoftscopeError
from softscope.estimators import Cool, Entropy, LogitEstimator, estimator, logits, scores
from softscope.estimators.base import ESTIMATORS
from softscope.estimators.compiled import TILE, tails
from softscope.estimators.softmax import Tail
from softscope.features import FeatureSet
from softscope.head import Head

RANK = {name: cls.rank for name, cls in ESTIMATORS.items() if issubclass(cls, LogitEstimator)}
NAMES = tuple(RANK)


def any_head(classes, width, dtype=np.float32, bias=True, seed=0):
    rng = np.random.default_rng(seed)
    return Head(rng.normal(size=(classes, width)).astype(dtype), rng.normal(size=classes) if bias else None)


def compiled_tails(logits, temperature=10.0):
    warm, cool = np.empty((2, 4, len(logits)))
    tails(logits, np.zeros(logits.shape[1], logits.dtype), 1.0 / temperature, warm, cool)
    return Tail(*warm), Tail(*cool)


def test_the_compiled_exponential_is_accurate_to_a_few_roundings():
    x = -np.concatenate([np.linspace(0, 1, 500), np.linspace(0, 699, 500)])
    np.testing.assert_allclose([exp(value) for value in x], np.exp(x), rtol=3e-13)
    near = x > -40  # what matters of a sum that holds a 1
    np.testing.assert_allclose([exp(value) for value in x[near]], np.exp(x[near]), rtol=1e-14)


@pytest.mark.parametrize("temperature", [10.0, 3.0, 0.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "classes"), [(1, 2), (TILE, 3), (TILE + 1, 10), (200, 31), (130, 100), (65, 1000)])
def test_compiled_tails_equal_the_numpy_ones(rows, classes, dtype, temperature):
    rng = np.random.default_rng(rows)
    logits = (rng.choice([0.1, 3.0, 50.0, 900.0], (rows, 1)) * rng.normal(size=(rows, classes))).astype(dtype)
    warm, cool = compiled_tails(logits, temperature)
    for ours, expected in ((warm, Tail.of(logits)), (cool, Tail.of(logits, temperature))):
        for field in ("first", "gap", "rest", "moment"):
            np.testing.assert_allclose(getattr(ours, field), getattr(expected, field), rtol=1e-13, atol=1e-13)


@given(arrays(np.float32, (70, 5), elements=st.floats(-(2.0**100), 2.0**100, width=32)))
def test_compiled_scores_equal_the_numpy_ones_on_any_logits(logits):
    logits[1::7] = logits[1::7, [0]]  # rows whose logits are all equal
    ours, expected = compiled_tails(logits), (Tail.of(logits), Tail.of(logits, 10.0))
    for name in NAMES:
        np.testing.assert_allclose(RANK[name](*ours), RANK[name](*expected), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 10, 150])
def test_many_rows_score_as_few_rows_do(monkeypatch, classes, dtype):
    head = any_head(classes, 20, dtype)
    z = np.random.default_rng(1).normal(size=(3001, 20)).astype(dtype)
    few = scores(head, z, NAMES)
    monkeypatch.setattr(logits, "COMPILE_ROWS", 100)
    monkeypatch.setattr(logits, "_TASK_BYTES", 1 << 15)
    many = scores(head, z, NAMES)
    for name in NAMES:
        np.testing.assert_allclose(many[name], few[name], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(scores(head, z, plain=True)["max"], estimator("max").fit(head).plain(z))


def test_scores_do_not_depend_on_the_rows_beside_them(monkeypatch):
    monkeypatch.setattr(logits, "COMPILE_ROWS", 100)
    for classes, width in ((10, 512), (100, 64), (300, 40)):
        head = any_head(classes, width)
        z = np.random.default_rng(2).normal(size=(1000, width)).astype(np.float32)
        order = np.random.default_rng(3).permutation(1000)
        whole, mixed = scores(head, z, NAMES), scores(head, z[order][:777], NAMES)
        for name in NAMES:
            np.testing.assert_array_equal(mixed[name], whole[name][order][:777])


def test_scores_read_feature_files_by_blocks(tmp_path, monkeypatch):
    head, z = any_head(7, 16), np.random.default_rng(4).normal(size=(5000, 16)).astype(np.float32)
    FeatureSet(z).save(tmp_path / "z.safetensors")
    monkeypatch.setattr(logits, "COMPILE_ROWS", 100)
    monkeypatch.setattr(logits, "_TASK_BYTES", 1 << 14)
    ours = scores(head, FeatureSet.open(tmp_path / "z.safetensors"))
    for name, values in scores(head, z).items():
        np.testing.assert_array_equal(ours[name], values)


def test_a_head_without_bias_scores_like_one_with_zero_bias():
    weight, z = any_head(5, 8).weight, np.random.default_rng(5).normal(size=(50, 8)).astype(np.float32)
    for one, other in zip(scores(Head(weight), z).values(), scores(Head(weight, np.zeros(5)), z).values()):
        np.testing.assert_array_equal(one, other)


def test_the_classes_are_the_fused_scores_one_by_one():
    head, z = any_head(5, 8), np.random.default_rng(6).normal(size=(50, 8)).astype(np.float32)
    together = scores(head, z, NAMES, temperature=4.0)
    np.testing.assert_array_equal(Entropy().fit(head).uncertainty(z), together["entropy"])
    np.testing.assert_array_equal(Cool(temperature=4.0).fit(head).uncertainty(z), together["cool"])


def test_no_array_of_rows_by_classes_is_made(monkeypatch):
    monkeypatch.setattr(logits, "COMPILE_ROWS", 100)
    head, z = any_head(500, 4), np.zeros((40_000, 4), np.float32)
    scores(head, z[:200])
    tracemalloc.start()
    try:
        scores(head, z)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6 < 40_000 * 500 * 4


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_the_first_bad_row_is_named(monkeypatch, bad, many, plain):
    monkeypatch.setattr(logits, "COMPILE_ROWS", 100 if many else 10**9)
    monkeypatch.setattr(logits, "_TASK_BYTES", 1 << 12)
    z = np.random.default_rng(7).normal(size=(4000, 8)).astype(np.float32)
    z[2345, 3] = bad
    z[3456, 0] = np.nan
    with pytest.raises(SoftscopeError, match=rf"mine: z: row 2345 holds {bad}"):
        scores(any_head(5, 8), FeatureSet(z, name="mine"), plain=plain)


def test_logits_beyond_float32_are_named_as_such():
    z = np.full((3, 8), 3e38, np.float32)
    with pytest.raises(SoftscopeError, match="beyond the range of float32"):
        scores(Head(np.ones((2, 8), np.float32)), z)


def test_unknown_scores_and_impossible_temperatures_are_refused():
    head, z = any_head(3, 4), np.zeros((2, 4), np.float32)
    with pytest.raises(SoftscopeError, match=r"'density'.*max, entropy"):
        scores(head, z, ("density",))
    for temperature in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SoftscopeError, match="temperature"):
            scores(head, z, temperature=temperature)


def test_calls_from_several_threads_leave_blas_as_it_was(monkeypatch):
    from threadpoolctl import threadpool_info

    def blas_threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    monkeypatch.setattr(logits, "COMPILE_ROWS", 100)
    head, z = any_head(5, 8), np.random.default_rng(8).normal(size=(2000, 8)).astype(np.float32)
    before, threads_seen = blas_threads(), []
    threads = [threading.Thread(target=lambda: threads_seen.append(scores(head, z)["max"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert blas_threads() == before
    assert len(threads_seen) == 4
    assert all((values == threads_seen[0]).all() for values in threads_seen)
