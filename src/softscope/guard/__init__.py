"""A detector to deploy: uncertainty with a promised false-alarm rate, in one file, over streams of any size.

guard = Guard.fit(head, train, calibration, false_alarms=0.05)
guard.alarms(z)                                # which rows to distrust
score_file(guard, "new.parquet", "out.parquet")
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .conformal import Promise
from .guard import Guard

if TYPE_CHECKING:
    from .exporting import Pixels as Pixels
    from .exporting import check_guarded as check_guarded
    from .exporting import export_guarded as export_guarded
    from .monitor import Evidence as Evidence
    from .monitor import Monitor as Monitor
    from .monitor import draw_evidence as draw_evidence
    from .serving import Service as Service
    from .serving import serve as serve
    from .stream import Summary as Summary
    from .stream import score_file as score_file
    from .watching import watch_stream as watch_stream

_HOMES = {
    "Pixels": "exporting",
    "check_guarded": "exporting",
    "export_guarded": "exporting",
    "Evidence": "monitor",
    "Monitor": "monitor",
    "draw_evidence": "monitor",
    "Service": "serving",
    "serve": "serving",
    "Summary": "stream",
    "score_file": "stream",
    "watch_stream": "watching",
}

__all__ = ["Guard", "Promise", *_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
