"""
A vision transformer of Hugging Face
====================================

A small ``ViTForImageClassification`` is trained here on five digits, in seconds. Its features have no ReLU
behind them, so they are negative as often as positive; scores that need ReLU features refuse them, all others
work.

Needs torch and transformers: ``pip install '.[torch,hf]'``.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
import transformers
from sklearn.datasets import load_digits

import softscope as sx

torch.manual_seed(0)
transformers.logging.set_verbosity_error()
digits = load_digits()
pixels, labels = torch.from_numpy(digits.images[:, None].astype(np.float32) / 16), torch.from_numpy(digits.target)
known = torch.from_numpy(np.random.default_rng(0).permutation(np.flatnonzero(digits.target < 5)))
train, test, unseen = known[:600], known[600:], labels >= 5

config = transformers.ViTConfig(
    image_size=8, patch_size=2, num_channels=1, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
    intermediate_size=96, num_labels=5,
)  # fmt: skip
model = transformers.ViTForImageClassification(config)
optimiser = torch.optim.Adam(model.parameters(), 2e-3)
for _ in range(12):
    for rows in train[torch.randperm(len(train))].split(64):
        optimiser.zero_grad()
        model(pixels[rows], labels=labels[rows]).loss.backward()
        optimiser.step()
model.eval()

# %%
# Dict batches, as a Trainer has them, work as well as arrays.
head, features = sx.extract(model, [{"pixel_values": pixels[train], "labels": labels[train]}])
_, familiar = sx.extract(model, [{"pixel_values": pixels[test], "labels": labels[test]}])
_, other = sx.extract(model, [{"pixel_values": pixels[unseen]}])
print(head, f"share of negative features: {(features.array() < 0).mean():.0%}")

# %%
diagnosis = sx.diagnose(head, features, familiar, {"digits 5 to 9": other})
sx.report(diagnosis, "hugging-face-vit.html")
diagnosis

# %%
# `The report <../reports/hugging-face-vit.html>`_. The best scores and confidence, with 95 % intervals:
scores = diagnosis.scores["digits 5 to 9"]
names = sorted(scores, key=lambda name: scores[name].auroc.value)[-8:]
names = ["plain-max", *(name for name in names if name != "plain-max")]
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for place, name in enumerate(names):
    auroc = scores[name].auroc
    axes.plot([auroc.low, auroc.high], [place, place], color="tab:blue")
    axes.plot(auroc.value, place, "o", color="tab:red" if name == "plain-max" else "tab:blue")
axes.set(yticks=range(len(names)), yticklabels=names, xlabel="AUROC")
plt.show()
