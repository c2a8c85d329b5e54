"""What becomes of a test whose process ends without a word: its own verdict, and no other test's."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONFTEST = "from tests.apart import pytest_runtest_logreport, pytest_runtest_protocol\n"
TESTS = """
import os
import pytest

@pytest.fixture
def ends_the_process():
    yield
    os._exit(1)

@pytest.mark.apart
def test_dies():
    os._exit(1)

@pytest.mark.apart
def test_dies_behind_its_verdict(ends_the_process):
    pass

@pytest.mark.apart
def test_fails():
    assert 2 + 2 == 5

@pytest.mark.apart
@pytest.mark.parametrize("why", ["no Ray here"])
def test_skips(why):
    pytest.skip(why)

@pytest.fixture(scope="module", autouse=True)
def shared(tmp_path_factory):
    yield
    (tmp_path_factory.getbasetemp().parent / "torn-down").touch()

def test_passes_here():
    os.environ["PARENT"]

@pytest.mark.apart
def test_passes_in_another_process():
    assert os.getpid() != int(os.environ["PARENT"])
"""
NEXT = """
def test_follows(tmp_path_factory):
    assert (tmp_path_factory.getbasetemp().parent / "torn-down").exists()
"""


def test_a_process_that_ends_without_a_word_costs_its_own_test_alone(tmp_path):
    (tmp_path / "conftest.py").write_text("import os\nos.environ.setdefault('PARENT', str(os.getpid()))\n" + CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = apart\n")
    (tmp_path / "test_ends.py").write_text(TESTS)
    (tmp_path / "test_next.py").write_text(NEXT)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert "2 failed, 4 passed, 1 skipped, 1 warning" in done.stdout, done.stdout
    assert "FAILED test_ends.py::test_dies - its process ended with exit code 1:" in done.stdout
    assert "assert (2 + 2) == 5" in done.stdout
    assert "no Ray here" in done.stdout
    assert "behind the verdict its process ended with exit code 1" in done.stdout
