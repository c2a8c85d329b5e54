"""`softscope demo` from nothing to a report, with the core installation alone."""

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from softscope import FeatureSet, Head, cli
from softscope.diagnosis import Diagnosis


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


def test_it_trains_diagnoses_and_names_the_report_last(folder, softscope):
    code, out, _ = softscope("demo", "--quiet", "-o", str(folder))
    assert code == 0
    assert out.strip().endswith(str(folder / "report.html"))
    diagnosis = Diagnosis.load(folder / "diagnosis.json")
    assert set(diagnosis.ood) == {"digits-8-9", "photographs", "noise"}
    assert diagnosis.test.accuracy is not None
    assert diagnosis.test.accuracy.value > 0.95
    assert all(scores["plain-max"].auroc.value > 0.7 for scores in diagnosis.scores.values())
    assert (folder / "report.html").stat().st_size < 3e6


def test_the_printed_line_names_files_that_are_there(folder, monkeypatch):
    from softscope.demo import DemoFiles

    names = ("digits-8-9", "photographs", "noise")
    ood = {name: folder / f"{name}.safetensors" for name in names}
    images = {name: folder / f"{name}-images.parquet" for name in names}
    paths = (folder / f"{name}.safetensors" for name in ("head", "train", "test"))
    words = shlex.split(DemoFiles(*paths, ood, images).command(folder / "again"))
    called = {}
    monkeypatch.setattr("softscope.cli.diagnose.diagnose_files", lambda *given: called.update(given=given))
    monkeypatch.setattr("softscope.cli.diagnose.show", lambda diagnosis, **how: None)
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    head, train, test, ood, images, out, *_ = called["given"]
    assert all(Path(path).is_file() for path in (head, train, test, *ood.values(), *images.values()))
    assert list(ood) == list(images) == list(names)
    assert out == folder / "again"


def test_its_features_and_head_belong_together(folder):
    head, test = Head.load(folder / "head.safetensors"), FeatureSet.open(folder / "test.safetensors")
    assert (head.logits(test.array()).argmax(axis=1) == test.labels).mean() > 0.95
    assert head.classes == tuple("01234567")
    assert np.isfinite(FeatureSet.open(folder / "noise.safetensors").array()).all()


CORE_ONLY = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "onnx", "onnxruntime", "ray", "huggingface_hub", "timm", "psutil"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
sys.argv = ["softscope", "demo", "--quiet", "-o", sys.argv[1]]
from softscope.cli import main
try:
    main()
finally:
    print([name for name in sys.modules if name.startswith("softscope.paper")], file=sys.stderr)
"""


def test_it_needs_nothing_but_the_core_installation(tmp_path):
    done = subprocess.run([sys.executable, "-c", CORE_ONLY, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "[]\n")
    assert (tmp_path / "report.html").exists()
