"""A detector to deploy: uncertainty with a promised false-alarm rate, in one file, over streams of any size.

guard = Guard.fit(head, train, calibration, false_alarms=0.05)
guard.alarms(z)                                # which rows to distrust
score_file(guard, "new.parquet", "out.parquet")
"""

from typing import TYPE_CHECKING

from ..lazy import lazily
from .conformal import Promise
from .guard import Guard

if TYPE_CHECKING:
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
    "exporting": ("check_guarded", "export_guarded"),
    "monitor": ("Evidence", "Monitor", "draw_evidence"),
    "serving": ("Service", "serve"),
    "stream": ("Summary", "score_file"),
    "watching": ("watch_stream",),
}
__getattr__ = lazily(__name__, _HOMES)
__all__ = ["Guard", "Promise", *(name for names in _HOMES.values() for name in names)]
