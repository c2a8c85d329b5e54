"""
A guard in a service
====================

``softscope guard serve`` is a small HTTP service in the Open Inference Protocol, with health checks and
metrics for Prometheus. Here it is started, asked, and stopped.

Needs the service's packages: ``pip install '.[serve]'``.
"""

import json
import socket
import subprocess
import sys
import time
import urllib.request

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import softscope as sx

digits = load_digits()
x, y = digits.data / 16, digits.target
known = np.random.default_rng(0).permutation(np.flatnonzero(y < 8))
net = MLPClassifier((64,), max_iter=500, random_state=0).fit(x[known[:721]], y[known[:721]])
head, train = sx.extract(net, (x[known[:721]], y[known[:721]]))
_, calibration = sx.extract(net, x[known[721:1082]])
sx.Guard.fit(head, train, calibration, estimator="density", false_alarms=0.05).save("guard.safetensors")

# %%
# The same command as on a server, on a free port of this machine.
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
server = subprocess.Popen(
    [sys.executable, "-m", "softscope", "guard", "serve", "guard.safetensors", "--port", str(port)],
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)  # fmt: skip


def ask(path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body and json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


for _ in range(300):
    try:
        ask("/v2/health/ready")
        break
    except OSError:
        time.sleep(0.2)

# %%
# A stream of familiar digits, then digits that the network has never seen, in requests of ten rows.
stream = np.concatenate([known[1082:], np.flatnonzero(y >= 8)])
_, z = sx.extract(net, x[stream])
p_values = []
for rows in np.array_split(z.array(), len(stream) // 10):
    tensor = {"name": "z", "datatype": "FP64", "shape": list(rows.shape), "data": rows.ravel().tolist()}
    outputs = json.loads(ask("/v2/models/guard/infer", {"inputs": [tensor]}))["outputs"]
    p_values += next(output["data"] for output in outputs if output["name"] == "p")
metrics = ask("/metrics").decode()
print("\n".join(line for line in metrics.splitlines() if line.startswith(("softscope_drift", "softscope_promised"))))
server.terminate()
server.wait(30)

# %%
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.scatter(np.arange(len(p_values)), p_values, s=5, c=np.where(np.array(p_values) <= 0.05, "tab:red", "tab:blue"))
axes.axvline(len(known) - 1082, color="gray", linestyle=":")
axes.set(xlabel="input of the stream (unseen digits from the dotted line on)", ylabel="p-value (red: alarm)")
plt.show()
