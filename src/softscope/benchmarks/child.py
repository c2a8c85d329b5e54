"""Run one function in this fresh process and print its cost, peak memory included: `report.measure_child` calls it."""

import json
import resource
import sys
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

from .report import measure


def peak_mb() -> float:
    """Peak resident memory of this process in MB (10^6 bytes)."""
    try:
        # On Linux ru_maxrss starts from the parent's size at fork; VmHWM belongs to this program alone.
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    except (OSError, IndexError, ValueError):
        kilo = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilo / 1e6


def main(function: str, arguments: str) -> None:
    """Call `function` ("package.module:name") once with JSON `arguments` and print cost and value as one JSON line."""
    module, _, name = function.partition(":")
    work = getattr(import_module(module), name)
    cost, value = measure(lambda: work(*json.loads(arguments)), repeats=1)
    print("\n" + json.dumps({"cost": asdict(replace(cost, peak_mb=peak_mb())), "value": value}))


if __name__ == "__main__":
    main(*sys.argv[1:])
