"""Running the clients of package registries (npm, apt), with one-line errors."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ...errors import SoftscopeError


def run_client(command: Sequence[str], folder: Path) -> None:
    """Run a client in `folder`; a SoftscopeError if it isn't installed or fails, with the line that says why."""
    if shutil.which(command[0]) is None:
        raise SoftscopeError(f"the client {command[0]} is not installed")
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        raise SoftscopeError(f"{command[0]} failed: {_reason(done.stderr.decode('utf-8', 'replace'))}")


def _reason(messages: str) -> str:
    """The first line that looks like an error, without its tag."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("npm err", "e:", "error", "dpkg-deb: error"))]
    # npm's first lines are codes (`npm error code ENOTFOUND`); the sentence comes after them.
    sentences = [line for line in errors if " code " not in line and " errno " not in line and " syscall " not in line]
    return (sentences or errors or lines or ["no message"])[0][:200]
