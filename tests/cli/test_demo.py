"""`softscope demo` from nothing to a report, and what it says without torch."""

import shlex
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
    found = Diagnosis.load(folder / "diagnosis.json")
    assert set(found.ood) == {"digits-8-9", "photographs", "noise"}
    assert found.test.accuracy is not None
    assert found.test.accuracy.value > 0.95
    assert all(scores["plain-max"].auroc.value > 0.7 for scores in found.scores.values())
    assert (folder / "report.html").stat().st_size < 3e6


def test_the_printed_line_names_files_that_are_there(folder, monkeypatch):
    from softscope.demo import DemoFiles

    names = ("digits-8-9", "photographs", "noise")
    ood = {name: folder / f"{name}.safetensors" for name in names}
    images = {name: folder / f"{name}-images.parquet" for name in names}
    paths = (folder / f"{name}.safetensors" for name in ("head", "train", "test"))
    words = shlex.split(DemoFiles(*paths, ood, images, accuracy=1.0).command(folder / "again"))
    called = {}
    monkeypatch.setattr("softscope.cli.diagnose.diagnose_files", lambda *given: called.update(given=given))
    monkeypatch.setattr("softscope.cli.diagnose.show", lambda found, as_json: None)
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


def test_without_torch_one_line_says_how_to_get_it(tmp_path, monkeypatch, softscope):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith(("softscope.paper.nets", "softscope.torch_door"))]:
        monkeypatch.delitem(sys.modules, name)
    code, _, err = softscope("demo", "--quiet", "-o", str(tmp_path))
    assert code == 2
    assert err.count("\n") == 1
    assert "pip install 'softscope[torch]'" in err
