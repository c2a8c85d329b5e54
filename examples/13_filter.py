"""
The filter: all inputs that exist
=================================

A network is a filter: of all possible inputs, which does it call certain? Here a small network learns digits
as bits, 9 by 9 pixels; four million of its 2^64 different inputs then go through it (X6 of the paper takes
2^27, `softscope filter` any number).

Needs torch: ``pip install '.[torch]'``.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from softscope.paper.filter import Range, inputs, log_odds_of, percent, scan, scanned
from softscope.paper.nets import build
from softscope.paper.training import TrainSettings, evaluate, train

digits = load_digits()
bits = np.zeros((len(digits.images), 9, 9, 1), np.uint8)
bits[:, :8, :8, 0] = digits.images > 7
labels = digits.target.astype(np.int64)
net = build("filter", classes=10, seed=0)
train(net, bits[::2], labels[::2], TrainSettings(epochs=12, batch=32, threads=1, precision="float32"))
print(f"accuracy {evaluate(net, bits[1::2], labels[1::2]).accuracy:.1%}")

# %%
# Inputs are numbered; input n of a seed can be made again at any time. Counts and the best finds of each
# class are kept.
statistics = scan(scanned(net), Range(seed=0, start=0, stop=2**22), threads=1)
print(f"share of all inputs that get 99 % confidence: {statistics.share_above(log_odds_of(0.99)):.2%}")

# %%
# The surest finds of each class: noise that the network takes for a digit.
figure, panels = plt.subplots(2, 10, figsize=(9, 2.4), layout="constrained")
for digit, (numbers, odds) in enumerate(zip(statistics.numbers, statistics.odds)):
    for axes, number, own in zip(panels[:, digit], numbers, odds):
        axes.set(xticks=[], yticks=[])
        if np.isfinite(own):
            axes.imshow(inputs.images(0, [number], (9, 9))[0][:8, :8], cmap="gray_r")
            axes.set_xlabel(percent(float(own)), fontsize=6)
    panels[0, digit].set_title(digit)
plt.show()
