"""
No OOD data: what can still be said
===================================

Usually nobody has examples of what will go wrong. Two things work all the same: a guard's promise about known
inputs, and a rehearsal, in which each class in turn plays the unfamiliar one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import softscope as sx
from softscope.estimators import estimator
from softscope.metrics import auroc

digits = load_digits()
x, y = digits.data / 16, digits.target
known = np.random.default_rng(0).permutation(np.flatnonzero(y < 8))
train, test = known[:721], known[721:]
NAMES = ("max", "energy", "density", "mahalanobis++", "knn")


def scores(rows, labels, familiar, other):
    """AUROC of each score for a network trained on `rows`: `other` against `familiar` inputs."""
    net = MLPClassifier((64,), max_iter=500, random_state=0).fit(rows, labels)
    head, features = sx.extract(net, (rows, np.searchsorted(net.classes_, labels)))
    known_z, other_z = (sx.extract(net, inputs)[1] for inputs in (familiar, other))
    fitted = {name: estimator(name).fit(head, features) for name in NAMES}
    return {name: auroc(one.uncertainty(known_z), one.uncertainty(other_z)).value for name, one in fitted.items()}


# %%
# The rehearsal: a network without class c meets class c.
rehearsed = {name: [] for name in NAMES}
for c in (0, 2, 4, 6):
    kept, shown = train[y[train] != c], test[y[test] != c]
    for name, value in scores(x[kept], y[kept], x[shown], x[y == c]).items():
        rehearsed[name].append(value)

# %%
# The real thing, which nobody had when the score was chosen: digits 8 and 9.
real = scores(x[train], y[train], x[test], x[y >= 8])
for name in NAMES:
    print(
        f"{name:14} rehearsal {np.mean(rehearsed[name]):.1%}, worst {min(rehearsed[name]):.1%}; real {real[name]:.1%}"
    )

# %%
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for place, name in enumerate(NAMES):
    axes.plot(
        np.full(4, place), rehearsed[name], "o", color="tab:blue", alpha=0.5, label="rehearsal" if not place else None
    )
    axes.plot(place, real[name], "*", color="tab:red", markersize=12, label="digits 8 and 9" if not place else None)
axes.set(xticks=range(len(NAMES)), xticklabels=NAMES, ylabel="AUROC")
axes.legend()
plt.show()
