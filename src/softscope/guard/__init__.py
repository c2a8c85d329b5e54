"""A detector to deploy: uncertainty with a promised false-alarm rate, in one file, over streams of any size.

guard = Guard.fit(head, train, calibration, false_alarms=0.05)
guard.alarms(z)                                # which rows to distrust
score_file(guard, "new.parquet", "out.parquet")
"""

from typing import TYPE_CHECKING

from ..lazy import lazily
from .conformal import Promise
from .guard import Guard, scores_or_nan

if TYPE_CHECKING:
    from .browsing import write_page
    from .exporting import check_guarded, export_guarded
    from .monitor import PICTURES, Evidence, Monitor, draw_evidence
    from .serving import Service, serve
    from .stream import Summary, score_file
    from .watching import watch_stream

_HOMES = {
    "browsing": ("write_page",),
    "exporting": ("check_guarded", "export_guarded"),
    "monitor": ("PICTURES", "Evidence", "Monitor", "draw_evidence"),
    "serving": ("Service", "serve"),
    "stream": ("Summary", "score_file"),
    "watching": ("watch_stream",),
}
__getattr__ = lazily(__name__, _HOMES)

__all__ = [
    "PICTURES", "Evidence", "Guard", "Monitor", "Promise", "Service", "Summary", "check_guarded", "draw_evidence",
    "export_guarded", "score_file", "scores_or_nan", "serve", "watch_stream", "write_page",
]  # fmt: skip
