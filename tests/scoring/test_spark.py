"""The Spark block of docs/scale.md gives the scores of the guard, row for row."""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from softscope.guard import Guard
from softscope.head import Head

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


@pytest.mark.slow
def test_a_guard_as_a_batch_function_of_spark_scores_every_row_once(tmp_path, monkeypatch):
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(4, 64)).astype(np.float32)
    labels = rng.integers(0, 4, 6000)
    z = (weight[labels] + rng.normal(size=(6000, 64))).astype(np.float32)
    guard = Guard.fit(Head(weight), (z[:2000], labels[:2000]), z[2000:3000], "density")
    guard.save(tmp_path / "guard.safetensors")
    lists = pa.array(list(z[3000:]), pa.list_(pa.float32()))
    pq.write_table(pa.table({"row": np.arange(3000), "z": lists}), tmp_path / "features.parquet", row_group_size=500)
    monkeypatch.chdir(tmp_path)
    for name, value in {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}.items():
        monkeypatch.setenv(name, value)
    (block,) = re.findall(r"```python\n(from pyspark.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(block, str(PAGE), "exec"), {})
    scores = pq.read_table(tmp_path / "scores").sort_by("row").to_pydict()
    assert scores["row"] == list(range(3000))
    np.testing.assert_allclose(scores["uncertainty"], guard.uncertainty(z[3000:]), rtol=1e-6)
    np.testing.assert_allclose(scores["p_value"], guard.p_values(z[3000:]), atol=1 / 1001 + 1e-12)
    assert np.mean(np.array(scores["alarm"], bool) == guard.alarms(z[3000:])) > 0.999
