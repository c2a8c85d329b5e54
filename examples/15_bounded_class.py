"""
A class that can never be sure
==============================

X4 freezes last layers in odd structures. After a ReLU features are never negative, so that a frozen layer can
put a class out of reach (claim T29): its confidence is bounded, whatever the features. The *sandwich* bounds
half of its classes as it stands, and none when it is turned; the *stack* bounds all classes in its middle,
turned or not.
"""

import matplotlib.pyplot as plt
import numpy as np

from softscope.geometry import confidence_caps, loss_floor, optimal_structure, sandwich, stack

CLASSES, FEATURES, NORM = 10, 12, 4.0
structures = {
    "optimal": optimal_structure(CLASSES, FEATURES, norm=NORM, seed=0),
    "sandwich": sandwich(CLASSES, FEATURES, norm=NORM),
    "sandwich, turned": sandwich(CLASSES, FEATURES, norm=NORM, seed=0),
    "stack": stack(CLASSES, FEATURES, norm=NORM, seed=0),
}

# %%
# The largest confidence that each class can reach, over all features (they may be negative here), and what it
# costs: no network with such a layer gets its loss below the floor.
figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
for place, (name, head) in enumerate(structures.items()):
    caps = confidence_caps(head)
    floor = loss_floor(caps, np.full(CLASSES, 1 / CLASSES)) + 0.0
    print(f"{name:17} bounded classes: {(caps < 1 - 1e-9).sum()}, lowest {caps.min():.1%}, loss at least {floor:.3f}")
    axes.bar(np.arange(CLASSES) + 0.2 * place - 0.3, caps, 0.19, label=name)
axes.set(xlabel="class", ylabel="largest confidence", xticks=range(CLASSES), ylim=(0, 1.25))
axes.legend(ncols=4, loc="upper center")
plt.show()
