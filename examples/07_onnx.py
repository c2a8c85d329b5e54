"""
ONNX in, guarded ONNX out
=========================

A classifier as an ONNX file goes in; an ONNX file comes out that answers class, probability, uncertainty,
p-value and alarm. It runs wherever onnxruntime runs, without Python, torch or Softscope.

Needs onnx and onnxruntime: ``pip install '.[onnx]'``.
"""

import matplotlib.pyplot as plt
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import softscope as sx

digits = load_digits()
x, y = (digits.data / 16).astype(np.float32), digits.target
known = np.random.default_rng(0).permutation(np.flatnonzero(y < 8))
train, calibration, fresh, unseen = known[:721], known[721:1082], known[1082:], np.flatnonzero(y >= 8)
net = MLPClassifier((64,), max_iter=500, random_state=0).fit(x[train], y[train])

# %%
# The file that goes in: here scikit-learn's network, written down by hand.
values = dict(zip(("w1", "w2", "b1", "b2"), [*net.coefs_, *net.intercepts_]))
nodes = [
    helper.make_node("Gemm", ["x", "w1", "b1"], ["hidden"]),
    helper.make_node("Relu", ["hidden"], ["z"]),
    helper.make_node("Gemm", ["z", "w2", "b2"], ["logits"]),
]
graph = helper.make_graph(
    nodes, "digits",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 64))],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ("n", 8))],
    [numpy_helper.from_array(value.astype(np.float32), name) for name, value in values.items()],
)  # fmt: skip
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "digits.onnx")

# %%
# Head and features are read out of the graph; the guard is fitted and goes back into it.
head, features = sx.extract("digits.onnx", (x[train], y[train]))
_, held_out = sx.extract("digits.onnx", x[calibration])
guard = sx.Guard.fit(head, features, held_out, estimator="density", false_alarms=0.05)
guard.export("digits.onnx", "guarded.onnx")

# %%
# From here on nothing but onnxruntime is used.
onnxruntime.set_default_logger_severity(3)
session = onnxruntime.InferenceSession("guarded.onnx")
entry = session.get_inputs()[0].name
print([output.name for output in session.get_outputs()])
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for name, rows in (("fresh digits 0 to 7", fresh), ("unseen 8 and 9", unseen)):
    p, alarm = session.run(["p", "alarm"], {entry: x[rows]})
    print(f"{name:20} alarms {alarm.mean():.1%}")
    axes.hist(p, np.linspace(0, 1, 21), weights=np.full(len(p), 1 / len(p)), alpha=0.6, label=name)
axes.axvline(0.05, color="gray", linestyle=":", label="alarm below")
axes.set(xlabel="p-value from guarded.onnx", ylabel="share of inputs")
axes.legend()
plt.show()
