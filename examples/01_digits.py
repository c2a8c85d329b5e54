"""
Digits: can this confidence be trusted?
=======================================

A small scikit-learn network learns the digits 0 to 7. What does it say to an 8 or a 9, which it has never
seen, to digits with their pixels shuffled, and to noise?
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import softscope as sx

rng = np.random.default_rng(0)
digits = load_digits()
x, y = digits.data / 16, digits.target
known = rng.permutation(np.flatnonzero(y < 8))
train, test, unseen = known[:721], known[721:], np.flatnonzero(y >= 8)
net = MLPClassifier((64,), max_iter=500, random_state=0).fit(x[train], y[train])

# %%
# One call: the last layer is found, its features are extracted and checked against the network's own answers,
# and every score is measured. In a notebook a diagnosis shows its verdict.
ood = {
    "8 and 9": x[unseen],
    "shuffled pixels": rng.permuted(x[test], axis=1),
    "noise": rng.random((500, 64)),
}
diagnosis = sx.diagnose(net, (x[train], y[train]), (x[test], y[test]), ood)
diagnosis

# %%
# Why confidence fails, in AUROC, each with its 95 % interval:
for name, causes in diagnosis.causes.items():
    print(f"{name}: overlap {causes.overlap:.1%}, extrapolation {causes.extrapolation:.1%}")

# %%
# The whole story as one HTML file, with the images that slip through: `the report <../reports/digits.html>`_.
pictures = {name: (255 * rows).reshape(-1, 8, 8).astype(np.uint8) for name, rows in ood.items()}
sx.report(diagnosis, "digits.html", images=pictures)

# %%
# How sure is the network of each kind of input?
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for name, rows in {"test digits": x[test], **ood}.items():
    sure = net.predict_proba(rows).max(axis=1)
    axes.hist(sure, np.linspace(0, 1, 41), weights=np.full(len(sure), 1 / len(sure)), histtype="step", label=name)
axes.set(xlabel="softmax confidence", ylabel="share of inputs", yscale="log")
axes.legend(loc="upper left")
plt.show()
