"""The gallery's examples run, each as a user would run it: alone, in an empty folder."""

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
QUICK = ("12_valid_regions", "15_bounded_class")


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else [pytest.mark.slow]) for path in EXAMPLES],
)
def test_the_example_runs(path, tmp_path):
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {name.split(".")[0] for node in imports for name in _named(node)}
    missing = sorted(name for name in names if find_spec(name) is None)
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed; `make docs` installs and runs it")
    words = {"MPLBACKEND": "agg", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=os.environ | words, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_there_are_fifteen_and_each_has_a_title_and_a_picture():
    assert len(EXAMPLES) == 15
    for path in EXAMPLES:
        text = path.read_text()
        title, line = (ast.get_docstring(ast.parse(text)) or "\n").split("\n")[:2]
        assert set(line) == {"="}, path
        assert len(line) == len(title), path
        assert text.rstrip().endswith("plt.show()"), path


def _named(node):
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
