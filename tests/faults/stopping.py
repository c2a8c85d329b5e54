"""A command that gets a signal in the middle of a chosen write: no clock, and no race with the test that sends it."""

import signal
import sys

_SCRIPT = """
import os, signal, sys
sent, left = int(sys.argv.pop(1)), int(sys.argv.pop(1))
sync = os.fsync
def fsync(handle):
    global left
    left -= 1
    if left == 0:
        signal.raise_signal(sent)
    sync(handle)
os.fsync = fsync
from softscope.cli import main
main()
"""


def stopped_at(sync: int, sent: signal.Signals, words: list[str]) -> list[str]:
    """A command line of `softscope WORDS`: the signal comes when it calls fsync for the `sync`th time.

    A file that `atomic_path` writes is two of these: its bytes before the renaming, its name after it.
    """
    return [sys.executable, "-c", _SCRIPT, str(int(sent)), str(sync), *words]
