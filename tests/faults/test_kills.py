"""kill -9 at any moment: the next run ends with the same files as one that nobody disturbed."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twenty_kills_over_all_commands_leave_whole_files_and_the_next_run_ends_them():
    """In a process of its own: forks need one without threads."""
    command = [sys.executable, "-m", "tests.faults.kills", "--kills", "20"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("every file as promised\n")
