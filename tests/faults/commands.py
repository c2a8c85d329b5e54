"""Odd words on every command line: paths, numbers and text that nobody means, for every option of every command.

    python -m tests.faults.commands [--only "guard fit"]          (part of `make faults`)

The options come from the commands themselves, so that a new one joins by itself. A command may work (exit code 0, or 3
for more alarms than promised), or refuse: exit code 2 and one line. Anything else is a failure.
"""

import argparse
import contextlib
import io
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import typer.main

from softscope import Head, cli
from softscope.cli.app import app

from .campaign import Failure, outcome, share_out, tell
from .formats import Format, draw, onnx_file, sound_guard

_FIT = "--head head.safetensors --train train.npz"
#: Sound lines, run in a folder with the files of `make_files`. What would take long or the network is left out.
LINES = {
    "demo": "-q -o out",
    "diagnose": f"{_FIT} --test train.npz --ood far=far.npy -q --force -o out",
    "extract": "m.onnx i.npz --mean 0 --std 1 -q -o out",
    "guard fit": f"{_FIT} --calibration train.npz --false-alarms 0.1 -o out.safetensors",
    "guard score": "guard.safetensors far.npy -q -o out.parquet",
    "guard show": "guard.safetensors",
    "guard recalibrate": "guard.safetensors --calibration train.npz -o out.safetensors",
    "guard export": "m.onnx guard.safetensors --raw-input -o out.onnx",
    "guard serve": "guard.safetensors",
    "watch": "guard.safetensors far.npy",
    "score": "far.npy --guard guard.safetensors --workers 1 -q -o out",
    "tune": f"{_FIT} --test train.npz --settings 1 --store runs -q -o out",
    "data list": "",
    "data get": "nothing",
    "data path": "mnist",
    "claims": "T8 -q",
    "reproduce": "X99 -q",
    "filter": "head.safetensors -q",
}
PATHS = (
    *("", " ", ".", "/", "..", "-", "/dev/zero", "/dev/null", "pipe", "loop", "gone", "empty", "folder", "far.npy/x"),
    *("\udcff.npy", "\x1b[2J\n.npy", "x" * 5000, "~nobody/x", "file:///etc/passwd", "secret.safetensors"),
    *("os:system", "json:loads", "hf:", "timm:", ":", "a=", "=a", "a=pipe", "a=/dev/zero", "a=empty"),
    *("empty.onnx", "empty.parquet", "empty.npz", "empty.pt"),
)
NUMBERS = ("", "nan", "inf", "-1", "0", "1e400", "9" * 30, "0x10", "1_0", "5%", "1e-320", "-0.0", "½", "1,2", "None")


def make_files(folder: Path) -> None:
    """Small sound inputs, and things that are no inputs."""
    z, labels = draw(60)
    Head(np.eye(3, 6, dtype=np.float32)).save(folder / "head.safetensors")
    np.savez(folder / "train.npz", z=z, labels=labels)
    np.save(folder / "far.npy", z + 2)
    sound_guard().save(folder / "guard.safetensors")
    onnx_file(folder)
    np.savez(folder / "i.npz", images=np.zeros((6, 8, 8, 1), np.uint8), labels=np.arange(6) % 3)
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "gone").symlink_to("nowhere")
    (folder / "folder").mkdir()
    for name in ("empty", "empty.onnx", "empty.parquet", "empty.npz", "empty.pt", "secret.safetensors"):
        (folder / name).touch()
    (folder / "secret.safetensors").chmod(0)


def cases(only: str | None = None) -> Iterator[list[str]]:
    """Words of every command, or of one: as they should be, then with an odd one in each place."""
    for name, line in LINES.items():
        if only not in (None, name):
            continue
        words = [*name.split(), *line.split()]
        yield words
        for place in range(len(name.split()), len(words)):
            if not words[place].startswith("-"):
                yield from ([*words[:place], odd, *words[place + 1 :]] for odd in PATHS)
        command = typer.main.get_command(app)
        for word in name.split():
            command = command.commands[word]  # type: ignore[attr-defined]
        for option in command.params:
            if option.param_type_name == "option" and not option.is_flag:  # type: ignore[attr-defined]
                yield from ([*words, option.opts[-1], odd] for odd in (*NUMBERS, *PATHS))


def run(words: list[str], folder: Path) -> None:
    """Run the command in `folder`; an AssertionError where it neither works nor refuses in one line."""
    err, code, here = io.StringIO(), 0, os.getcwd()
    os.chdir(folder)
    try:
        with (
            patch.object(sys, "argv", ["softscope", *words]),
            patch.object(sys, "stdin", io.StringIO("")),
            patch("uvicorn.run"),
            patch("softscope.engine.cores", return_value=1),  # no worker processes: what fails, fails here
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(err),
        ):
            cli.main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        os.chdir(here)
    said = err.getvalue()
    if code not in (0, 3) and (code != 2 or said.count("\n") != 1 or not said[:-1].isprintable()):
        raise AssertionError(f"exit code {code}: {said!r}")


def campaign(only: str | None = None, every: int = 1, without: tuple[str, ...] = ()) -> tuple[int, list[Failure]]:
    """How many lines were tried, one in `every` of all commands but `without`, and what broke the promise."""
    failures, tried = [], [words for words in cases(only) if words[0] not in without][::every]
    with tempfile.TemporaryDirectory() as place, patch.dict(os.environ, {"HF_HUB_OFFLINE": "1"}):
        folder = Path(place) / "work"
        if only is not None:
            _sound(folder)
            run(tried[0], folder)  # heavy imports are not charged to a case
        for words in tried:
            _sound(folder)
            what = outcome(Format("command", Path, partial(run, words)), folder)
            if what is not None:
                failures.append(Failure(repr([word[:60] for word in words]), "odd words", what))
    return len(tried), failures


def _sound(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    make_files(folder)


def main() -> None:
    """Try all lines and list what broke the promise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="COMMAND")
    only = parser.parse_args().only
    if only is None:
        sys.exit(share_out("tests.faults.commands", LINES))
    start = time.perf_counter()
    sys.exit(tell(start, *campaign(only)))


if __name__ == "__main__":
    main()
