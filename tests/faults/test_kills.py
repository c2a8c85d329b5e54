"""kill -9 at any moment: the next run ends with the same files as one that nobody disturbed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twenty_kills_over_all_commands_leave_whole_files_and_the_next_run_ends_them():
    """In a process of its own, with one thread: a fork of one with several could wait for the locks of others."""
    command = [sys.executable, "-m", "tests.faults.kills", "--kills", "20"]
    alone = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, env=alone)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("every file as promised\n") == 7
