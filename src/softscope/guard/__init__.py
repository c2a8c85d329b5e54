"""A detector to deploy: uncertainty with a promised false-alarm rate, in one file, over streams of any size.

guard = Guard.fit(head, train, calibration, false_alarms=0.05)
guard.alarms(z)                                # which rows to distrust
score_file(guard, "new.parquet", "out.parquet")
"""

from typing import TYPE_CHECKING

from ..lazy import lazily
from .conformal import Promise
from .guard import Guard
from .judging import classify, judge

if TYPE_CHECKING:
    from .browsing import write_page
    from .exporting import check_guarded, export_guarded
    from .monitor import PICTURES, Evidence, Monitor, draw_evidence
    from .parts import sealed, unsealed
    from .serving import Service, serve
    from .stream import Summary, counts_by_class, score_file
    from .watching import watch_stream

_HOMES = {
    "browsing": ("write_page",),
    "exporting": ("check_guarded", "export_guarded"),
    "monitor": ("PICTURES", "Evidence", "Monitor", "draw_evidence"),
    "parts": ("sealed", "unsealed"),
    "serving": ("Service", "serve"),
    "stream": ("Summary", "counts_by_class", "score_file"),
    "watching": ("watch_stream",),
}
__getattr__ = lazily(__name__, _HOMES)

__all__ = [
    "PICTURES", "Evidence", "Guard", "Monitor", "Promise", "Service", "Summary", "check_guarded", "classify",
    "counts_by_class", "draw_evidence", "export_guarded", "judge", "score_file", "sealed", "serve", "unsealed",
    "watch_stream", "write_page",
]  # fmt: skip
