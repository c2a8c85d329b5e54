"""
A convolutional network in torch
================================

Five digits are learned, the other five are unfamiliar. A torch model and arrays are all that `diagnose`
needs: the last layer is found by following a few inputs through the network.

Needs torch: ``pip install '.[torch]'``.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import softscope as sx
from softscope.geometry import Plane

torch.manual_seed(0)
digits = load_digits()
pixels, labels = torch.from_numpy(digits.images[:, None].astype(np.float32) / 16), torch.from_numpy(digits.target)
known = torch.from_numpy(np.random.default_rng(0).permutation(np.flatnonzero(digits.target < 5)))
train, test, unseen = known[:600], known[600:], labels >= 5

model = nn.Sequential(
    nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
    nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 5),
)  # fmt: skip
optimiser = torch.optim.Adam(model.parameters(), 3e-3)
for _ in range(15):
    for rows in train[torch.randperm(len(train))].split(64):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(pixels[rows]), labels[rows]).backward()
        optimiser.step()

# %%
diagnosis = sx.diagnose(
    model.eval(),
    train=(pixels[train], labels[train]),
    test=(pixels[test], labels[test]),
    ood={"digits 5 to 9": pixels[unseen]},
)
sx.report(diagnosis, "torch-cnn.html", images={"digits 5 to 9": (255 * pixels[unseen, 0]).byte().numpy()})
diagnosis

# %%
# `The report <../reports/torch-cnn.html>`_ opens in the browser. Below, the final layer on the plane of its
# two principal components: unfamiliar digits lie between the classes, and partly on them. The latter is
# overlap.
head, familiar = sx.extract(model, (pixels[test], labels[test]))
_, other = sx.extract(model, pixels[unseen])
plane = Plane.principal(familiar.array(), other.array())

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.scatter(*plane.project(other.array()).T, s=6, c="0.7", label="digits 5 to 9")
points = plane.project(familiar.array())
for digit in range(5):
    axes.scatter(*points[familiar.labels == digit].T, s=10, label=str(digit))
axes.legend(fontsize=8)
axes.set(xlabel="first component", ylabel="second component")
plt.show()
