"""
Which score?
============

Every score of the register, on the same network and the same OOD inputs. The diagnosis measures them all,
with 95 % intervals; :doc:`/which-score` says which to take when there is nothing to measure on.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import softscope as sx
from softscope.estimators import ESTIMATORS

rng = np.random.default_rng(0)
digits = load_digits()
x, y = digits.data / 16, digits.target
known = rng.permutation(np.flatnonzero(y < 8))
train, test = known[:721], known[721:]
net = MLPClassifier((64,), max_iter=500, random_state=0).fit(x[train], y[train])
ood = {"near: 8 and 9": x[y >= 8], "far: noise": rng.random((600, 64))}

# %%
diagnosis = sx.diagnose(net, (x[train], y[train]), (x[test], y[test]), ood, estimators=list(ESTIMATORS))
sx.report(diagnosis, "which-score.html")
diagnosis

# %%
# `The report <../reports/which-score.html>`_ ranks them too. Near and far OOD inputs want different scores:
names = sorted(ESTIMATORS, key=lambda name: diagnosis.mean_scores[name].auroc.value)
figure, axes = plt.subplots(figsize=(7, 7), layout="constrained")
for offset, (colour, (where, scores)) in zip((-0.15, 0.15), zip(("tab:blue", "tab:orange"), diagnosis.scores.items())):
    for place, name in enumerate(names):
        auroc = scores[name].auroc
        axes.plot([auroc.low, auroc.high], [place + offset] * 2, color=colour, linewidth=1)
        axes.plot(auroc.value, place + offset, "o", color=colour, markersize=4, label=None if place else where)
axes.set(yticks=range(len(names)), yticklabels=names, xlabel="AUROC, with 95 % interval")
axes.grid(axis="y", alpha=0.3)
axes.legend()
plt.show()
