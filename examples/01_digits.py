"""
Digits: can this confidence be trusted?
=======================================

A small scikit-learn network learns the digits 0 to 7. What does it say to an 8 or a 9, which it has never seen?
"""

from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import softscope as sx

digits = load_digits()
x, y = digits.data / 16, digits.target
known, unseen = y < 8, y >= 8
train_x, train_y, test_x, test_y = x[known][::2], y[known][::2], x[known][1::2], y[known][1::2]
net = MLPClassifier((64,), max_iter=500, random_state=0).fit(train_x, train_y)

# %%
# One call: the last layer is found, its features are extracted and checked against the network's own answers, and every
# score is measured. In a notebook a diagnosis shows its verdict.
diagnosis = sx.diagnose(net, train=(train_x, train_y), test=(test_x, test_y), ood={"8 and 9": x[unseen]})
diagnosis

# %%
# Why confidence fails, in points of AUROC, each with its 95 % interval:
causes = diagnosis.causes["8 and 9"]
for name in ("saturation", "extrapolation", "overlap"):
    print(f"{name:14} {getattr(causes, name):.1%}")

# %%
# The whole story as one HTML file, with the images that slip through: `the report <../reports/digits.html>`_.
pictures = (digits.images[unseen] * 255 / 16).astype("uint8")
sx.report(diagnosis, "digits.html", images={"8 and 9": pictures})
# sphinx_gallery_thumbnail_path = 'images/report.png'
