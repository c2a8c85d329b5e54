"""
No OOD data: what can still be said
===================================

Usually nobody has examples of what will go wrong. Without them `diagnose` uses stand-ins: classes that the
last layer is fitted again without, and probes, inputs that no classifier should know. How much do they tell
about what really comes?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import softscope as sx

rng = np.random.default_rng(0)
digits = load_digits()
x, y = digits.data / 16, digits.target
known = rng.permutation(np.flatnonzero(y < 8))
train, test = (x[known[:721]], y[known[:721]]), (x[known[721:]], y[known[721:]])
net = MLPClassifier((64,), max_iter=500, random_state=0).fit(*train)

# %%
# No OOD set is given; the probes are noise and digits with shuffled pixels.
probes = {"noise": rng.random((500, 64)), "shuffled pixels": rng.permuted(test[0], axis=1)}
rehearsal = sx.diagnose(net, train, test, probes=probes)
sx.report(rehearsal, "no-ood-data.html")
rehearsal

# %%
# `The report <../reports/no-ood-data.html>`_ says what stands in for what. Now the digits 8 and 9 arrive,
# which nobody had:
real = sx.diagnose(net, train, test, {"8 and 9": x[y >= 8]})

sets = {**rehearsal.scores, "really came: 8 and 9": real.scores["8 and 9"]}
names = [name for name in ("plain-max", "energy", "knn", "density", "mahalanobis++") if name in real.estimators]
figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
for number, (label, scores) in enumerate(sets.items()):
    for place, name in enumerate(names):
        auroc, at = scores[name].auroc, place + 0.12 * (number - 2.5)
        axes.plot([at, at], [auroc.low, auroc.high], color=f"C{number}")
        axes.plot(at, auroc.value, "o", color=f"C{number}", label=None if place else label)
axes.set(xticks=range(len(names)), xticklabels=names, ylabel="AUROC, with 95 % interval")
axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()
