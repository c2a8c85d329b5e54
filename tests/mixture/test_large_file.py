"""A mixture is fitted and scored on a file several times larger than the memory it takes."""

import json
import subprocess
import sys

import pytest

FEATURES, ROWS = 256, 2_000_000

WRITE = """
import sys
import numpy as np
from softscope.features import FeatureSet

rng = np.random.default_rng(0)
block = rng.normal(size=(20_000, {features})).astype(np.float32)
with open(sys.argv[1], "wb") as file:
    header = {{"descr": "<f4", "fortran_order": False, "shape": ({rows}, {features})}}
    np.lib.format.write_array_header_1_0(file, header)
    for i in range({rows} // 20_000):
        (block + np.float32(i % 3)).tofile(file)
"""

FIT = """
import json, resource, sys
import numpy as np
import scipy.linalg, sklearn.cluster
from benchmarks.measuring import peak_mb
from softscope import Density, FeatureSet, Head

features = FeatureSet.open(sys.argv[1])
density = Density(components=1)
before = peak_mb()
density.fit(Head(np.eye(3, {features}, dtype=np.float32)), features)
scores = density.uncertainty(features)
print(json.dumps({{"grew": peak_mb() - before, "rows": len(scores), "mean": float(scores.mean()),
                   "finite": bool(np.isfinite(scores).all())}}))
"""


@pytest.mark.slow
def test_fit_and_score_take_a_fraction_of_a_two_gigabyte_file(tmp_path):
    path = tmp_path / "features.npy"
    sizes = {"features": FEATURES, "rows": ROWS}
    subprocess.run([sys.executable, "-c", WRITE.format(**sizes), path], check=True)
    assert path.stat().st_size > 2e9
    run = subprocess.run([sys.executable, "-c", FIT.format(**sizes), path], check=True, capture_output=True, text=True)
    told = json.loads(run.stdout)
    assert told["rows"] == ROWS
    assert told["finite"]
    assert told["grew"] < 450  # MB, against 2,048 MB of features
