"""The wheel as a stranger gets it: built, installed into an empty environment, used outside the checkout."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The folder that the wheel and the source archive were built into."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def run(dist, tmp_path_factory):
    """A call that runs words in an empty environment that the wheel and its core dependencies were installed into."""
    place = tmp_path_factory.mktemp("stranger")
    venv.create(place / "venv", with_pip=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SOFTSCOPE", "VIRTUAL"))}
    own |= {"PATH": f"{place / 'venv' / 'bin'}{os.pathsep}{own['PATH']}", "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}

    def call(*words):
        done = subprocess.run(words, cwd=place, env=own, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, (words, done.stdout[-1000:], done.stderr[-2000:])
        return done.stdout

    def install(extra=""):
        (wheel,) = dist.glob("*.whl")
        pip = ("python", "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-compile")
        call(*pip, "-c", str(ROOT / "constraints.txt"), f"{wheel}{extra}")

    install()
    call.install, call.place = install, place
    return call


def test_wheel_and_source_archive_hold_every_file_of_the_package(dist):
    package = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "softscope").rglob("*.*")}
    package = {name for name in package if "__pycache__" not in name and (ROOT / "src" / name).is_file()}
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        assert package <= set(wheel.namelist())
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {f"src/{name}" for name in package} | {"README.md", "LICENSE", "examples/01_digits.py"} <= names


def test_the_core_runs_the_demo_without_torch(run):
    assert "torch" not in run("python", "-m", "pip", "list")
    run("softscope", "demo")
    assert (run.place / "softscope-demo" / "report.html").is_file()


def test_an_extra_brings_what_its_example_needs(run):
    run.install("[onnx]")
    assert "unseen 8 and 9" in run("python", str(ROOT / "examples" / "07_onnx.py"))
