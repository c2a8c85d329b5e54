"""
Where would an OOD input be noticed?
====================================

The valid OOD region of a score (claim T4 of the paper) is where a point of the final layer is more uncertain
than 95 % of the training data. For softmax confidence it is a strip along the decision boundaries: far from
all training data most of the plane is *not* in it. A density puts everything far away into it.
"""

import matplotlib.pyplot as plt
import numpy as np

import softscope as sx
from softscope.estimators import estimator
from softscope.geometry import KnownMixture, valid_region

weights = np.array([[1.0, 0.1], [-0.45, 0.9], [-0.55, -0.8]])
head = sx.Head(1.3 * weights)
mixture = KnownMixture(
    np.full(3, 1 / 3), 2.4 * weights, [[[0.3, 0.1], [0.1, 0.4]], [[0.5, 0.15], [0.15, 0.25]], 0.35 * np.eye(2)]
)
z, labels = mixture.sample(1500, np.random.default_rng(0))

# %%
reach = 6.0
line = np.linspace(-reach, reach, 200)
grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)

figure, panels = plt.subplots(1, 4, figsize=(11, 3.1), layout="constrained", sharey=True)
for axes, name in zip(panels, ("max", "entropy", "mahalanobis", "density")):
    fitted = estimator(name).fit(head, sx.FeatureSet(z, labels))
    inside = valid_region(fitted, z, epsilon=0.05).contains(grid)
    axes.contourf(line, line, inside.reshape(200, 200), levels=[0.5, 1.5], colors=["tab:orange"], alpha=0.5)
    axes.scatter(*z.T, c=labels, s=2, cmap="viridis")
    axes.set(title=f"{name}: {inside.mean():.0%} of the square", aspect="equal")
plt.show()
