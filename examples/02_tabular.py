"""
Tabular data: a column in the wrong unit
========================================

A classifier of breast tumours gets rows from another laboratory: once with lengths in another unit, ten times
as large, once with ten columns missing and filled with 0. Does its confidence drop?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import softscope as sx

data = load_breast_cancer()
x, x_test, y, y_test = train_test_split(data.data, data.target, test_size=0.4, random_state=0)
classifier = make_pipeline(StandardScaler(), MLPClassifier((16,), max_iter=1000, random_state=0)).fit(x, y)
print(f"accuracy {classifier.score(x_test, y_test):.1%}")

# %%
# The same test rows with one thing wrong. Accuracy falls, confidence doesn't:
unit, missing = x_test.copy(), x_test.copy()
unit[:, ["radius" in name or "perimeter" in name for name in data.feature_names]] *= 10
missing[:, ["worst" in name for name in data.feature_names]] = 0
ood = {"other unit": unit, "columns missing": missing}
for name, rows in ood.items():
    sure = classifier.predict_proba(rows).max(axis=1).mean()
    print(f"{name:16} accuracy {classifier.score(rows, y_test):.1%}, mean confidence {sure:.1%}")

# %%
# A guard is calibrated on rows that were not trained on. It needs no faulty rows: it promises that at most 5
# % of sound rows raise an alarm. Half of the test rows calibrate it, the other half judges it.
head, train = sx.extract(classifier, (x, y))
half = len(x_test) // 2
_, known = sx.extract(classifier, x_test[:half])
guard = sx.Guard.fit(head, train, known, estimator="density", false_alarms=0.05)

shares = {}
for name, rows in {"sound": x_test, **ood}.items():
    _, z = sx.extract(classifier, rows[half:])
    unsure = classifier.predict_proba(rows[half:]).max(axis=1) < 0.9
    shares[name] = unsure.mean(), guard.alarms(z).mean()
    print(f"{name:16} confidence below 90 %: {shares[name][0]:5.1%}   alarm of the guard: {shares[name][1]:5.1%}")

# %%
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
places = np.arange(len(shares))
for offset, label, values in zip((-0.2, 0.2), ("confidence below 90 %", "guard"), zip(*shares.values())):
    axes.bar(places + offset, 100 * np.array(values), 0.38, label=label)
axes.axhline(5, color="gray", linestyle=":", label="promised false alarms")
axes.set(xticks=places, xticklabels=list(shares), ylabel="rows flagged, %")
axes.legend()
plt.show()
