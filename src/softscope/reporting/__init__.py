"""A diagnosis as one self-contained HTML page: `report(diagnosis, "report.html")`; on a terminal; in a notebook.

The package isn't called `report`: importing a package sets its name on `softscope`, and `softscope.report` is the call.
"""

from .page import report
from .terminal import show

__all__ = ["report", "show"]
