"""The campaign itself: it sees what breaks the promise, and a small run of it finds nothing."""

import time
from pathlib import Path

import pytest

from softscope.errors import SoftscopeError
from tests.faults import campaign, commands
from tests.faults.campaign import run
from tests.faults.formats import Format


def made(folder: Path) -> Path:
    (folder / "x").write_text("sound")
    return folder / "x"


def uses(behaviour):
    """A format whose sound file is read, and whose damaged ones meet `behaviour`."""
    return (Format("made up", made, lambda path: None if path.read_bytes() == b"sound" else behaviour(path)),)


def raising(error):
    def use(path):
        raise error

    return use


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (raising(KeyError("z")), "KeyError"),
        (raising(RecursionError()), "RecursionError"),
        (lambda path: time.sleep(1), "took more than 0.1 s"),
        (lambda path: print("EP Error"), "printed 'EP Error"),
    ],
)
def test_a_foreign_exception_a_hang_and_foreign_words_are_seen(behaviour, said, monkeypatch):
    monkeypatch.setattr(campaign, "SECONDS", 0.1)
    (failure,) = run(1, formats=uses(behaviour))
    assert said in failure.what


def test_memory_is_seen(monkeypatch):
    peaks = iter([100.0, 2300.0])
    monkeypatch.setattr(campaign, "_peak", lambda: next(peaks))
    (failure,) = run(1, formats=uses(lambda path: None))
    assert failure.what == "took 2,200 MB"


def test_a_refusal_in_one_line_is_as_promised():
    assert run(20, formats=uses(raising(SoftscopeError("damaged", "Copy it again")))) == []


def test_a_case_repeats_exactly():
    seen: list[bytes] = []
    for _ in range(2):
        run(5, seed=3, formats=uses(lambda path: seen.append(path.read_bytes())))
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_in_twenty_of_the_odd_command_lines_works_or_is_refused_in_one_line():
    count, failures = commands.campaign(every=20, without=("demo", "tune"))  # these take the longest when they work
    assert count >= 300
    assert list(map(str, failures)) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_thousand_damaged_files_are_read_or_refused():
    assert list(map(str, run(2000, seed=20))) == []
