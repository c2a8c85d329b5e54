"""
A stream that drifts
====================

Cameras age: images get noisier, slowly. No labels come with them. The monitor of a guard collects evidence
that the stream has changed; one that has not changed raises its alarm with a probability of at most 1 %,
however long one looks.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import softscope as sx

digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.data))
x, y = digits.data[order] / 16, digits.target[order]
net = MLPClassifier((64,), max_iter=500, random_state=0).fit(x[:600], y[:600])
head, train = sx.extract(net, (x[:600], y[:600]))
_, calibration = sx.extract(net, x[600:1000])
guard = sx.Guard.fit(head, train, calibration, estimator="density", false_alarms=0.05)

# %%
# The last 797 digits twice: as they are, and with noise that grows from row 300 on.
growing = np.maximum(0, np.linspace(-300, 497, 797) / 497)[:, None]
noise = 0.5 * growing * np.random.default_rng(1).normal(size=(797, 64))
streams = {"unchanged": x[1000:], "noisier from 300 on": x[1000:] + noise}

# Why one wants to know; in production nobody has the labels to see it:
for name, rows in streams.items():
    print(f"{name}: accuracy on the last 200 rows {net.score(rows[-200:], y[-200:]):.1%}")

# %%
# What the monitor says, without them:
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for name, rows in streams.items():
    monitor = guard.monitor(rate=0.01)
    for block in np.array_split(rows, 40):
        _, z = sx.extract(net, block)
        evidence = monitor.update(z)
    print(f"{name}: {evidence}; alarm at row {evidence.alarm_row}")
    seen, log_value = monitor.trace.T
    axes.plot(seen, log_value / np.log(10), label=name)
axes.axhline(2, color="tab:red", linestyle="--", label="alarm: 1 in 100")
axes.set(xlabel="rows of the stream", ylabel="evidence of a change, log10", ylim=(-3, 12))
axes.legend()
plt.show()
