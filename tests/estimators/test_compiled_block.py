"""What the compiled loops read off a block is what the numpy formulas read off it."""

import numpy as np
import pytest

from softscope import Head, SoftscopeError
from softscope.estimators import estimator, logits, uncertainties
from softscope.estimators.base import Block
from softscope.estimators.compiled_block import CompiledBlock

QUANTITIES = {
    "first": lambda block, made: block.first,
    "sizes": lambda block, made: block.sizes,
    "softmax": lambda block, made: block.softmax,
    "off uniform": lambda block, made: block.off_uniform,
    "entropy": lambda block, made: block.minus_entropy,
    "distances": lambda block, made: block.distances(made["mean"]),
    "inner": lambda block, made: block.inner(made["patterns"]),
    "room": lambda block, made: block.room(made["weights"]),
    "generalised entropy": lambda block, made: block.log_generalised_entropy(0.1, 100),
    "its largest 3": lambda block, made: block.log_generalised_entropy(0.1, 3),
    "its other power": lambda block, made: block.log_generalised_entropy(0.25, 100),
    "sum ratio": lambda block, made: block.sum_ratio(4),
    "scaled energy": lambda block, made: block.scaled_energy(made["factors"], made["bias"]),
    "cool": lambda block, made: block.cool.log_entropy(),
}


def drawn(classes: int, size: float, dtype: type, rows: int = 70):
    rng = np.random.default_rng(classes)
    logits = (size * rng.normal(size=(rows, classes))).astype(dtype)
    logits[:3] = logits[:3, :1]  # all equal
    logits[3, :2] = logits[3].max() + 1  # two winners
    z = rng.normal(size=(rows, 21)).astype(dtype)
    z[:40] = np.maximum(z[:40], 0)
    z[4], z[5], z[6, :10] = 0, 1, z[6].max() + 1  # no entry above 0, and ties where the largest are counted
    for array in (logits, z):
        array.flags.writeable = False
    made = {
        "mean": rng.normal(size=21),
        "patterns": rng.normal(size=(classes, 21)),
        "weights": rng.random((classes, classes)),
        "factors": np.exp(rng.random(rows)),
        "bias": rng.normal(size=classes),
    }
    return z, logits, made


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("size", [0.0, 1.0, 30.0, 1e4])
@pytest.mark.parametrize(("classes", "dtype"), [(2, np.float32), (10, np.float64), (101, np.float32)])
def test_a_kernel_agrees_with_the_formula(quantity, size, classes, dtype):
    z, logits, made = drawn(classes, size, dtype)
    read = QUANTITIES[quantity]
    expected = read(Block(z, logits), made)
    # A log of sums of 1e4 has digits to 1e-12 of that; everything else to 1e-11 of its own size.
    np.testing.assert_allclose(read(CompiledBlock(z, logits), made), expected, rtol=1e-11, atol=1e-12 * max(1.0, size))


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_row_has_the_same_value_whatever_is_beside_it(quantity):
    z, logits, made = drawn(10, 5.0, np.float32)
    read, whole = QUANTITIES[quantity], QUANTITIES[quantity](CompiledBlock(z, logits), made)
    for part in (slice(0, 9), slice(9, 70)):
        own = made | {"factors": made["factors"][part]}
        np.testing.assert_array_equal(read(CompiledBlock(z[part], logits[part]), own), whole[part])


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_a_row_that_cannot_be_scored_is_named(monkeypatch, value):
    monkeypatch.setattr(logits, "COMPILE_ROWS", 0)
    rng = np.random.default_rng(0)
    head = Head(rng.normal(size=(5, 12)).astype(np.float32))
    train, labels = np.abs(rng.normal(size=(100, 12))).astype(np.float32), np.arange(100) % 5
    z = train.copy()
    z[33, 4] = value
    for name in ("gen", "kl-matching", "gradnorm", "fdbd", "nci", "she", "scale"):
        with pytest.raises(SoftscopeError, match="row 33"):
            uncertainties({name: estimator(name).fit(head, (train, labels))}, z)
