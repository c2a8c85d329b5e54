"""A guard's file: the same guard elsewhere, and an error for whatever was changed, by accident or on purpose."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softscope.errors import SoftscopeError
from softscope.estimators import ESTIMATORS, NCI, Density, KernelDensity, Mahalanobis, NearestNeighbours, Residual
from softscope.features import FeatureSet
from softscope.files import read_safetensors, stream_safetensors
from softscope.guard import Guard
from softscope.guard.saving import contents, write_signed
from softscope.head import Head

from .test_guard import Failing


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_comes_back_with_the_same_scores_and_decisions(world, tmp_path, name, per_class):
    guard = Guard.fit(world.head, world.train, world.calibration, name, 0.1, per_class=per_class)
    guard.save(tmp_path / "g.safetensors")
    loaded = Guard.load(tmp_path / "g.safetensors")
    np.testing.assert_allclose(loaded.uncertainty(world.fresh), guard.uncertainty(world.fresh), rtol=1e-6)
    np.testing.assert_array_equal(loaded.p_values(world.fresh), guard.p_values(world.fresh))
    np.testing.assert_array_equal(loaded.alarms(world.strange), guard.alarms(world.strange))
    np.testing.assert_array_equal(loaded.thresholds, guard.thresholds)
    assert loaded.describe() == guard.describe()
    assert loaded.head.classes == world.head.classes


@pytest.mark.parametrize(
    "made",
    [
        Density(covariance="tied"),
        Density(covariance="diagonal", transform="log"),
        Density(covariance="spherical", neurons=5, seed=3),
        Density(components=3, init="kmeans"),
        Density(one_per_class=True, ridge=0.01),
        Density(covariance="tied", normalise=True),
        KernelDensity(normalise=True),
        Mahalanobis(normalise=True),
        NearestNeighbours(normalise=False),
        Residual(normalise=True),
        NCI(alpha=0.5),
    ],
    ids=str,
)
def test_parameters_of_the_estimator_come_back(world, tmp_path, made):
    guard = Guard.fit(world.head, world.train, world.calibration, made)
    guard.save(tmp_path / "g.safetensors")
    loaded = Guard.load(tmp_path / "g.safetensors")
    assert loaded.estimator.params() == made.params()
    np.testing.assert_allclose(loaded.uncertainty(world.fresh), guard.uncertainty(world.fresh), rtol=1e-6)


def test_a_head_without_bias_or_names_and_float64_features_come_back(world, tmp_path):
    head = Head(world.head.weight.astype(np.float64))
    wide = FeatureSet(world.calibration.array().astype(np.float64))
    guard = Guard.fit(head, None, wide, "energy")
    guard.save(tmp_path / "g.safetensors")
    loaded = Guard.load(tmp_path / "g.safetensors")
    assert (loaded.head.bias.any(), loaded.head.classes, loaded.head.weight.dtype) == (False, None, np.float64)
    np.testing.assert_array_equal(loaded.uncertainty(wide), guard.uncertainty(wide))


def test_another_process_scores_to_1e_6_and_decides_the_same(world, guard, tmp_path):
    """With other threads and another batch, as on another machine."""
    guard.save(tmp_path / "g.safetensors")
    np.save(tmp_path / "z.npy", world.fresh)
    code = (
        "import numpy as np, softscope as sx; g = sx.Guard.load('g.safetensors'); z = np.load('z.npy');"
        "np.savez('found.npz', u=np.concatenate([g.uncertainty(row[None]) for row in z]), a=g.alarms(z))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"})
    with np.load(tmp_path / "found.npz") as loaded:
        scores = guard.uncertainty(world.fresh)
        np.testing.assert_allclose(loaded["u"], scores, rtol=1e-6, atol=1e-6 * np.abs(scores).max())
        away = np.abs(scores - guard.thresholds[0]) > 1e-5 * np.abs(scores).max()
        assert away.sum() > 390
        np.testing.assert_array_equal(loaded["a"][away], guard.alarms(world.fresh)[away])


def test_the_same_guard_is_the_same_file(guard, tmp_path):
    guard.save(tmp_path / "a.safetensors")
    Guard.load(tmp_path / "a.safetensors").save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_an_estimator_that_no_other_machine_knows_is_not_saved(world, tmp_path):
    guard = Guard.fit(world.head, None, world.calibration, Failing())
    with pytest.raises(SoftscopeError, match=r"Failing\(\) is not an estimator of softscope"):
        guard.save(tmp_path / "g.safetensors")
    assert list(tmp_path.iterdir()) == []


# --- changed and hostile files


@pytest.fixture(scope="module")
def small(world, tmp_path_factory):
    """The bytes of a small guard, whose class names need escapes."""
    head = Head(world.head.weight, classes=["é", "\\u00e9", '"', "ü"])
    path = tmp_path_factory.mktemp("small") / "g.safetensors"
    Guard.fit(head, None, world.calibration.take(slice(20)), "max").save(path)
    return path.read_bytes()


def test_a_change_of_any_byte_is_noticed(small, tmp_path):
    """Every byte of the header (blanks also turned into other blanks), and every seventh of the tensors."""
    start = 8 + int.from_bytes(small[:8], "little")
    path = tmp_path / "g.safetensors"
    changes = [(at, (0x01, 0x20, 0x02)[at % 3]) for at in range(start)]
    changes += [(at, ord(" ") ^ ord("\t")) for at in range(start) if small[at] == ord(" ")]
    changes += [(at, 0x01) for at in range(start, len(small), 7)]
    for at, bits in changes:
        path.write_bytes(small[:at] + bytes([small[at] ^ bits]) + small[at + 1 :])
        with pytest.raises(SoftscopeError, match=r"g\.safetensors"):
            Guard.load(path)
    path.write_bytes(small)
    Guard.load(path)


@given(st.data())
def test_cut_extended_and_scrambled_files_are_refused(small, tmp_path, data):
    cut = data.draw(st.integers(0, len(small) - 1))
    other = data.draw(st.sampled_from([small[:cut], small + b"x" * (1 + cut), small[cut:] + small[:cut], b"x" * cut]))
    if other == small:
        return
    (tmp_path / "g.safetensors").write_bytes(other)
    with pytest.raises(SoftscopeError, match=r"g\.safetensors"):
        Guard.load(tmp_path / "g.safetensors")


def forged(guard, path, change):
    """A file whose digest is right and whose contents were changed on purpose."""
    tensors, words = contents(guard)
    tensors, words = dict(tensors), json.loads(json.dumps(words))
    change(tensors, words)
    write_signed(path, "softscope.guard", "2", tensors, words)


FORGERIES = {
    "unknown estimator": lambda t, w: w.update(estimator="os.system"),
    "estimator of no text": lambda t, w: w.update(estimator=["density"]),
    "unknown parameter": lambda t, w: w["params"].update(command="rm"),
    "parameters that are a list": lambda t, w: w.update(params=[1]),
    "no parameters": lambda t, w: w.pop("params"),
    "rate of text": lambda t, w: w.update(false_alarms="0.05"),
    "rate beyond the calibration": lambda t, w: w.update(false_alarms=1e-9),
    "rate of none": lambda t, w: w.update(false_alarms=None),
    "per class without classes": lambda t, w: w.update(per_class=True),
    "class names of another number": lambda t, w: w.update(classes=["a"]),
    "no weight": lambda t, w: t.pop("head.weight"),
    "weight with NaN": lambda t, w: t.update({"head.weight": np.full((4, 12), np.nan)}),
    "weight of another width": lambda t, w: t.update({"head.weight": np.ones((4, 5), np.float32)}),
    "weight of whole numbers": lambda t, w: t.update({"head.weight": np.ones((4, 12), np.int64)}),
    "no scores": lambda t, w: t.pop("calibration.scores"),
    "scores in another order": lambda t, w: t.update({"calibration.scores": t["calibration.scores"][::-1].copy()}),
    "scores with NaN": lambda t, w: t.update({"calibration.scores": np.full(300, np.nan)}),
    "scores of float32": lambda t, w: t.update({"calibration.scores": np.zeros(300, np.float32)}),
    "scores in a matrix": lambda t, w: t.update({"calibration.scores": np.zeros((300, 1))}),
    "counts that don't add up": lambda t, w: t.update({"calibration.counts": np.array([299])}),
    "negative counts": lambda t, w: t.update({"calibration.counts": np.array([-300])}),
    "more counts than groups": lambda t, w: t.update({"calibration.counts": np.array([150, 150])}),
    "no state": lambda t, w: [t.pop(name) for name in list(t) if name.startswith("state.")],
    "covariance of no kind": lambda t, w: t.update({"state.covariance": np.array(77)}),
    "means of another width": lambda t, w: t.update({"state.means": np.ones((4, 7))}),
    "means of fewer components": lambda t, w: t.update({"state.means": np.ones((2, 12))}),
    "factors that are no matrices": lambda t, w: t.update({"state.factors": np.ones(4)}),
    "factors with NaN": lambda t, w: t.update({"state.factors": np.full((4, 12, 12), np.nan)}),
    "half the factors": lambda t, w: t.update({"state.factors": t["state.factors"][:, :6, :6].copy()}),
    "other means": lambda t, w: t.update({"state.means": t["state.means"] + 1}),
    "no probes": lambda t, w: t.pop("probe.z"),
    "probes of another width": lambda t, w: t.update({"probe.z": np.ones((16, 3), np.float32)}),
    "probe scores of another number": lambda t, w: t.update({"probe.scores": np.ones(3)}),
    "probe scores with NaN": lambda t, w: t.update({"probe.scores": np.full(16, np.nan)}),
    "calibration scores that the probes contradict": lambda t, w: t.update(
        {"calibration.scores": t["calibration.scores"] + 1}
    ),
    "calibration scores beyond all probes": lambda t, w: t.update(
        {"calibration.scores": np.sort(np.append(t["probe.scores"], np.full(284, 1e9)))}
    ),
    "classes of another number": lambda t, w: t.update({"calibration.classes": np.zeros(3, np.int64)}),
    "classes that the head lacks": lambda t, w: t.update({"calibration.classes": np.full(300, 4)}),
    "confidence of text": lambda t, w: w.update(confidence="0.9"),
    "confidence that 300 rows can't give": lambda t, w: w.update(confidence=1 - 1e-12),
    "a parent that is a list": lambda t, w: w.update(parent=[1]),
    "other probe scores": lambda t, w: t.update({"probe.scores": t["probe.scores"] + 1}),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_guard_with_a_right_digest_is_refused_too(guard, tmp_path, name):
    forged(guard, tmp_path / "g.safetensors", FORGERIES[name])
    with pytest.raises(SoftscopeError, match=r"g\.safetensors: ") as caught:
        Guard.load(tmp_path / "g.safetensors")
    assert "\n" not in str(caught.value)


def test_a_forgery_that_changes_nothing_loads(guard, tmp_path):
    forged(guard, tmp_path / "g.safetensors", lambda t, w: None)
    assert Guard.load(tmp_path / "g.safetensors").describe() == guard.describe()


def test_a_guard_of_softscope_0_1_loads(guard, world, tmp_path):
    """Without confidence, predicted classes and parent."""
    tensors, words = contents(guard)
    words = {key: value for key, value in words.items() if key not in ("confidence", "parent")}
    tensors = {name: tensor for name, tensor in tensors.items() if name != "calibration.classes"}
    write_signed(tmp_path / "g.safetensors", "softscope.guard", "1", tensors, words)
    loaded = Guard.load(tmp_path / "g.safetensors")
    np.testing.assert_array_equal(loaded.alarms(world.fresh), guard.alarms(world.fresh))
    assert loaded.describe()["spread"] == []


def test_confidence_comes_back(world, tmp_path):
    guard = Guard.fit(world.head, None, world.calibration, "max", confidence=0.9)
    guard.save(tmp_path / "g.safetensors")
    loaded = Guard.load(tmp_path / "g.safetensors")
    assert (loaded.promise, loaded.thresholds) == (guard.promise, guard.thresholds)
    assert loaded.describe() == guard.describe()


def test_a_guard_that_scores_otherwise_on_this_machine_says_so(guard, tmp_path, monkeypatch):
    guard.save(tmp_path / "g.safetensors")
    before = Density._uncertainty
    monkeypatch.setattr(Density, "_uncertainty", lambda self, rows: 1.001 * before(self, rows))
    with pytest.raises(SoftscopeError, match="scores its own probe rows differently here"):
        Guard.load(tmp_path / "g.safetensors")


def test_files_that_are_no_guards_are_refused(world, guard, tmp_path):
    world.head.save(tmp_path / "head.safetensors")
    with pytest.raises(SoftscopeError, match=r"head\.safetensors: is not a guard. Make one with Guard.fit"):
        Guard.load(tmp_path / "head.safetensors")
    with pytest.raises(SoftscopeError, match="no such file"):
        Guard.load(tmp_path / "nothing.safetensors")
    guard.save(tmp_path / "g.safetensors")
    tensors, metadata = read_safetensors(tmp_path / "g.safetensors")
    blocks = {name: (t.dtype, t.shape, [t]) for name, t in tensors.items()}
    stream_safetensors(tmp_path / "next.safetensors", blocks, metadata | {"version": "3"})
    with pytest.raises(SoftscopeError, match=r"a guard of format '3', expected '2'\. Install a newer softscope"):
        Guard.load(tmp_path / "next.safetensors")


def test_a_guard_whose_covariances_had_to_be_shared_survives_a_file(tmp_path, monkeypatch):
    from softscope import Density, FeatureSet, Guard, Head

    monkeypatch.setattr("softscope.estimators.density.FULL_BYTES", 1.0)
    rng = np.random.default_rng(0)
    train, known = (FeatureSet(rng.normal(size=(90, 4)), np.arange(90) % 3) for _ in range(2))
    with pytest.warns(UserWarning, match="share one covariance"):
        guard = Guard.fit(Head(np.eye(3, 4)), train, known, Density(), 0.1)
    guard.save(tmp_path / "guard.safetensors")
    np.testing.assert_array_equal(Guard.load(tmp_path / "guard.safetensors").p_values(known), guard.p_values(known))
