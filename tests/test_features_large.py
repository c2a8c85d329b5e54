"""Files several times larger than the memory that reading them may take; memory is the process's peak resident set."""

import json
import shutil
import subprocess
import sys
import zipfile
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from softscope.files import stream_safetensors

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc for the peak of memory"),
]
ROWS, WIDTH, BLOCK = 1_000_000, 256, 10_000
FILE_MB, BOUND_MB = ROWS * WIDTH * 4 / 1e6, 200

# VmHWM, not getrusage: ru_maxrss of a child begins with the peak of the process that started it.
CHILD = """
import json, sys
import numpy as np, pyarrow.parquet
from softscope.features import FeatureSet

def peak():
    return next(int(line.split()[1]) / 1e3 for line in open("/proc/self/status") if line.startswith("VmHWM"))

source, copy, before = sys.argv[1], sys.argv[2], peak()
features = FeatureSet.open(source)
counts = [float(chunk[:, 0].sum(dtype=np.float64)) for chunk in features.chunks()]
wanted = np.random.default_rng(0).integers(0, len(features), 300)
gathered = bool((features.rows(wanted)[:, 0] == wanted).all())
if copy:
    features.save(copy)
print(json.dumps({"rows": len(features), "sum": sum(counts), "gathered": gathered, "rise": peak() - before}))
"""


def blocks(scale=1.0):
    """ROWS x WIDTH of float32, made piece by piece; column 0 counts the rows. With scale 0 it compresses fast."""
    noise = np.random.default_rng(0).normal(scale=scale, size=(BLOCK, WIDTH)).astype(np.float32)
    for start in range(0, ROWS, BLOCK):
        z = noise.copy()
        z[:, 0] = np.arange(start, start + BLOCK)
        yield z


def write_safetensors(path):
    stream_safetensors(path, {"z": (np.dtype(np.float32), (ROWS, WIDTH), blocks())})


def write_compressed_npz(path):
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("z.npy", "w", force_zip64=True) as file,
    ):
        header = {"descr": "<f4", "fortran_order": False, "shape": (ROWS, WIDTH)}
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks(scale=0.0):
            file.write(block.data)


def write_parquet_folder(path):
    """Two files of one row group each, the hardest case: half of everything in one piece."""
    path.mkdir()
    pieces = blocks()
    for number in range(2):
        flat = [pa.array(block.ravel()) for block in islice(pieces, ROWS // BLOCK // 2)]
        column = pa.chunked_array([pa.FixedSizeListArray.from_arrays(values, WIDTH) for values in flat])
        table = pa.table({"z": column, "label": np.zeros(len(column), np.int64)})
        pq.write_table(table, path / f"{number}.parquet", row_group_size=ROWS, compression=None, use_dictionary=False)
        assert pq.ParquetFile(path / f"{number}.parquet").num_row_groups == 1


@pytest.fixture
def scratch(tmp_path):
    """A folder that doesn't outlive the test, as pytest's own would: it holds gigabytes."""
    yield tmp_path
    shutil.rmtree(tmp_path)


def size_mb(path):
    return sum(file.stat().st_size for file in (path.iterdir() if path.is_dir() else [path])) / 1e6


@pytest.mark.parametrize(
    ("name", "write", "copied"),
    [
        ("z.safetensors", write_safetensors, True),
        ("z.npz", write_compressed_npz, False),
        ("folder", write_parquet_folder, False),
    ],
)
def test_memory_stays_bounded_whatever_the_size_of_the_file(scratch, name, write, copied):
    write(scratch / name)
    if name != "z.npz":
        assert size_mb(scratch / name) > 4 * BOUND_MB
    copy = scratch / "copy.safetensors"
    arguments = [sys.executable, "-c", CHILD, str(scratch / name), str(copy) if copied else ""]
    told = json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)
    assert told["rows"] == ROWS
    assert told["sum"] == ROWS * (ROWS - 1) / 2
    assert told["gathered"]
    assert told["rise"] < BOUND_MB, f"{told['rise']:.0f} MB for a file of {FILE_MB:.0f} MB"
    assert not copied or copy.stat().st_size > FILE_MB * 1e6
