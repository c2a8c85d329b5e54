"""Damaged files by the thousand: every one must be read, or refused with one line, quickly and in little memory.

    python -m tests.faults.campaign --cases 30000 --seed 0          (`make faults`)

A case is named by format and number and repeats exactly: `--only npz:1234`. Seconds are the processor's, so that a
busy machine fails nothing; a case that only waits has six times as long. Each format has a process of
its own, one per core at a time.
"""

import argparse
import io
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random

from softscope.errors import SoftscopeError

from .formats import CORE, TORCH, Format
from .mutators import MUTATORS
from .production import PRODUCTION

FORMATS = CORE + TORCH + PRODUCTION
SECONDS, MEGABYTES = 10.0, 2000.0
_TIMERS = ((signal.ITIMER_PROF, signal.SIGPROF, 1.0), (signal.ITIMER_REAL, signal.SIGALRM, 6.0))


@dataclass(frozen=True)
class Failure:
    """A case that broke the promise, and how."""

    case: str
    mutator: str
    what: str

    def __str__(self) -> str:
        return f"{self.case} ({self.mutator}): {self.what}"


class _TooLong(BaseException):
    """Not an Exception: no reader's `except` may swallow it."""


def run(cases: int, seed: int = 0, formats: tuple[Format, ...] = FORMATS) -> list[Failure]:
    """`cases` damaged files in all, the same number of each format; what broke the promise."""
    failures = []
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # a damaged checkpoint is a warning and a new start
    try:
        with tempfile.TemporaryDirectory() as folder:
            each = -(-cases // len(formats))
            for index, format_ in enumerate(formats):
                made = _Made(format_, Path(folder) / str(index))
                failures += [failure for number in range(each) if (failure := made.case(seed, number)) is not None]
    finally:
        logging.disable(before)
    return failures


def tell(start: float, cases: int, failures: list[Failure]) -> int:
    """Print what broke the promise and one line that counts; the exit code."""
    print("".join(f"{failure}\n" for failure in failures), end="")
    seconds = time.perf_counter() - start
    print(f"{cases:,} cases, {len(failures)} failures, {seconds:.0f} s ({time.process_time():.0f} s of the processor)")
    return 1 if failures else 0


def share_out(module: str, names: Iterable[str], *words: str) -> int:
    """`python -m MODULE --only NAME WORDS` for every name, one per core at a time; the exit code of all."""
    start, failed = time.perf_counter(), []

    def one(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", module, "--only", name, *words]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, errors="replace")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {pool.submit(one, name): name for name in names}
        for future in as_completed(running):
            done, name = future.result(), running[future]
            print(f"{name}: {done.stdout.rstrip()}", flush=True)
            if done.returncode:  # negative where a signal ended it
                failed.append(f"{name} (exit code {done.returncode})")
    print(f"{module}: {time.perf_counter() - start:.0f} s, failed: {', '.join(failed) or 'nothing'}", flush=True)
    return 1 if failed else 0


class _Made:
    """A sound file of a format, its bytes, and how to try damaged ones in its place."""

    def __init__(self, format_: Format, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.format, self.path = format_, format_.make(folder)
        self.content = self.path.read_bytes()
        self.format.use(self.path)  # a sound file is read, and heavy imports are not charged to a case
        self.folder, self.sound = folder, folder.with_name(f"{folder.name}-sound")
        shutil.copytree(folder, self.sound)

    def case(self, seed: int, number: int) -> Failure | None:
        """Damage number `number`: None if it was read or refused as promised."""
        random = Random(zlib.crc32(f"{seed} {self.format.name} {number}".encode()))
        content, applied = self.content, []
        for mutator in random.choices(MUTATORS, k=random.choice((1, 1, 1, 2))):
            content = mutator(random, content) if content else content
            applied.append(mutator.__name__)
        self._reset()
        self.path.write_bytes(content)
        what = outcome(self.format, self.path)
        return None if what is None else Failure(f"{self.format.name}:{number}", "+".join(applied), what)

    def _reset(self) -> None:
        for path in self.folder.iterdir():
            if path.name not in {each.name for each in self.sound.iterdir()}:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.sound, self.folder, dirs_exist_ok=True)


def outcome(format_: Format, path: Path) -> str | None:
    """How using the file at `path` broke the promise; None where it was read or refused."""
    before, start, printed = _peak(), time.process_time(), io.StringIO()
    try:
        with _limited(SECONDS), warnings.catch_warnings(), redirect_stdout(printed):
            warnings.simplefilter("ignore")
            format_.use(path)
    except SoftscopeError as error:
        if "\n" in str(error):
            return f"a message of several lines: {str(error)!r}"
    except _TooLong:
        return f"took more than {SECONDS:g} s"
    except Exception as error:  # what the campaign looks for
        return f"{type(error).__name__}: {str(error)[:200]}"
    if printed.getvalue():
        return f"printed {printed.getvalue()[:200]!r}"
    grown = _peak() - before
    if grown > MEGABYTES:
        return f"took {grown:,.0f} MB"
    seconds = time.process_time() - start  # once more: a call into C is not interrupted
    return f"took {seconds:.0f} s" if seconds > SECONDS else None


def _peak() -> float:
    kilo = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilo / 1e6


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TooLong

    before = [signal.signal(sent, stop) for _, sent, _ in _TIMERS]
    try:
        for timer, _, times in _TIMERS:
            signal.setitimer(timer, seconds * times)
        yield
    finally:
        for timer, _, _ in _TIMERS:
            signal.setitimer(timer, 0)
        for (_, sent, _), handler in zip(_TIMERS, before, strict=True):
            signal.signal(sent, handler)


def main() -> None:
    """Run the campaign and list what broke the promise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="FORMAT[:NUMBER]", help="one format, or one case of it")
    given = parser.parse_args()
    names = [format_.name for format_ in FORMATS]
    if given.only is None:
        each = -(-given.cases // len(names))
        sys.exit(share_out("tests.faults.campaign", names, "--cases", str(each), "--seed", str(given.seed)))
    start = time.perf_counter()
    name, _, number = given.only.partition(":")
    format_ = FORMATS[names.index(name)]
    if number:
        with tempfile.TemporaryDirectory() as folder:
            print(_Made(format_, Path(folder) / "one").case(given.seed, int(number)) or "as promised")
    else:
        sys.exit(tell(start, given.cases, run(given.cases, given.seed, (format_,))))


if __name__ == "__main__":
    main()
