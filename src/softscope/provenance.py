"""Where a result comes from: command, versions, machine, threads, date and wall time.

Kept beside results, never in them: the same settings give the same results, at another time.
"""

import os
import platform
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import __version__
from .errors import printable

_RECORDED = ("numpy", "scipy", "sklearn", "numba", "torch", "onnxruntime", "safetensors", "matplotlib", "ray")


class Stopwatch:
    """Starts when made; `provenance()` describes the work done since."""

    def __init__(self) -> None:
        self._date = datetime.now(UTC)
        self._start = time.perf_counter()

    def provenance(self, **known: Any) -> dict[str, Any]:
        """What is known of this process now, `known` (seed, data, ...) first."""
        return {
            **known,
            "command": command_line(),
            "date": self._date.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - self._start, 3),
            "versions": versions(),
            "machine": machine(),
            "threads": threads(),
        }


def command_line() -> str:
    """The command of this process, the program by its name alone."""
    return printable(shlex.join([Path(sys.argv[0] or "python").name, *sys.argv[1:]]))


def versions() -> dict[str, str]:
    """Versions of Python, Softscope and those libraries that this process has loaded."""
    loaded = {name: str(getattr(sys.modules[name], "__version__", "?")) for name in _RECORDED if name in sys.modules}
    return {"softscope": __version__, "python": platform.python_version(), **loaded}


def machine() -> dict[str, Any]:
    """Processor, cores and system, without the host's name: results are published."""
    return {"processor": _processor(), "cores": cores(), "system": f"{platform.system()} {platform.machine()}"}


def cores() -> int:
    """Cores this process may use: its affinity and its container's quota counted, at least 1."""
    from joblib import cpu_count  # type: ignore[import-untyped]

    return int(cpu_count())


def threads() -> int:
    """Threads that one numeric operation may use in this process."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # a list has one number per level
    return (int(first) if first.isdecimal() else 0) or cores()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
