"""
File types: a guard around magika
=================================

Google's magika names the type of a file from its bytes: an ONNX file with 214 classes. Files that Python's
own packages bring are familiar to it. What does it make of formats that are not among its classes?

Needs magika and onnxruntime: ``pip install magika``.
"""

from pathlib import Path

import magika
import matplotlib.pyplot as plt
import numpy as np

import softscope as sx

MODEL = next(Path(magika.__file__).parent.glob("models/*/model.onnx"))


def as_input(content):
    """The first and the last 1,024 bytes, padded with 256: what magika's network reads."""
    first, last = content[:4096].lstrip()[:1024], content[-4096:].rstrip()[-1024:]
    row = np.full(2048, 256, np.int32)
    row[: len(first)] = np.frombuffer(first, np.uint8)
    row[2048 - len(last) :] = np.frombuffer(last, np.uint8)
    return row


def inputs_from(pattern, most):
    """Inputs from files of the installed packages, spread over all there are."""
    files = sorted(path for path in PACKAGES.rglob(pattern) if path.stat().st_size > 64)
    return [as_input(path.read_bytes()) for path in files[:: max(1, len(files) // most)][:most]]


PACKAGES = Path(np.__file__).parents[1]
known = np.stack(
    [row for pattern in ("*.py", "*.pyc", "*.so", "*.h", "*.json", "*.txt") for row in inputs_from(pattern, 120)]
)
known = np.random.default_rng(0).permutation(np.unique(known, axis=0))

# %%
# Two formats without a class of their own: font metrics (``.afm``, from matplotlib) and safetensors, written
# here.
import tempfile

rng = np.random.default_rng(0)
with tempfile.TemporaryDirectory() as folder:
    heads = []
    for number in range(40):
        sx.Head(rng.normal(size=(3 + number, 20))).save(f"{folder}/head.safetensors")
        heads.append(as_input(Path(folder, "head.safetensors").read_bytes()))
ood = {"font metrics": np.stack(inputs_from("*.afm", 60)), "safetensors": np.stack(heads)}

# %%
# Two guards on the same features: one reads magika's confidence, the other how far the nearest known files
# are. Each lets at most 5 % of known files raise an alarm; neither has seen a strange one.
third = len(known) // 3
head, train = sx.extract(MODEL, known[: 2 * third])
_, calibration = sx.extract(MODEL, known[2 * third :: 2])
guards = {name: sx.Guard.fit(head, train, calibration, estimator=name, false_alarms=0.05) for name in ("max", "knn")}

figure, panels = plt.subplots(1, 2, figsize=(8, 3), layout="constrained", sharey=True)
for name, rows in {"known types": known[2 * third + 1 :: 2], **ood}.items():
    _, z = sx.extract(MODEL, rows)
    for axes, (score, guard) in zip(panels, guards.items()):
        print(f"{name:14} alarms of {score}: {guard.alarms(z).mean():.1%}")
        shares = np.full(len(rows), 1 / len(rows))
        axes.hist(guard.p_values(z), np.linspace(0, 1, 21), weights=shares, histtype="step", label=name)
        axes.set(xlabel=f"p-value of the guard on {score}")
        axes.axvline(0.05, color="gray", linestyle=":")
panels[0].set_ylabel("share of files")
panels[1].legend()
plt.show()
