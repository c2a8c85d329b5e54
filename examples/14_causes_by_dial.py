"""
A dial for each cause
=====================

Does `diagnose` name the right cause? Here each cause is turned up by hand (X12): logits are multiplied
(saturation), OOD inputs are moved outwards (extrapolation), OOD features are replaced by features of known
inputs (overlap). Each dial should raise the curve of its own name and leave the others alone.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import softscope as sx

digits = load_digits()
x, y = digits.data / 16, digits.target
known = np.random.default_rng(0).permutation(np.flatnonzero(y < 6))
train, test, spare = known[:500], known[500:800], known[800:]
net = MLPClassifier((64,), max_iter=500, random_state=0).fit(x[train], y[train])
head, features = sx.extract(net, (x[train], y[train]))
_, familiar = sx.extract(net, (x[test], y[test]))
strange = x[y >= 6][:200]


def z(rows):
    return sx.extract(net, rows)[1].array()


def causes(own_head, other):
    """Rounding (saturation proper), extrapolation proper and overlap proper, in points of AUROC."""
    diagnosis = sx.diagnose(own_head, features, familiar, other, bootstraps=20, estimators=())
    fields = ("rounding", "extrapolation_proper", "overlap_proper")
    return [[100 * getattr(own, field).value for field in fields] for own in diagnosis.causes.values()]


# %%
factors = (1, 10, 100, 1000)
saturation = [causes(sx.Head(f * head.weight, f * head.bias), {"ood": z(strange)})[0] for f in factors]
magnified = causes(head, {f"{f} times": z(f * strange) for f in (1, 2, 4, 8)})
shares = (0, 0.2, 0.4, 0.6)
mixed = {
    f"share {share}": np.concatenate([z(x[spare])[: int(200 * share)], z(strange)[int(200 * share) :]])
    for share in shares
}
overlap = causes(head, mixed)

# %%
dials = {
    "logits multiplied": (factors, saturation),
    "OOD inputs magnified": ((1, 2, 4, 8), magnified),
    "OOD replaced by known": (shares, overlap),
}
figure, panels = plt.subplots(1, 3, figsize=(10, 3), layout="constrained", sharey=True)
for number, (axes, (title, (positions, values))) in enumerate(zip(panels, dials.items())):
    for cause, (label, curve) in enumerate(zip(("saturation", "extrapolation", "overlap"), zip(*values))):
        axes.plot(range(4), curve, marker="o", linewidth=3 if cause == number else 1, label=label)
    axes.set(title=title, xticks=range(4), xticklabels=positions)
panels[0].set_ylabel("cause, points of AUROC")
panels[0].legend()
plt.show()
