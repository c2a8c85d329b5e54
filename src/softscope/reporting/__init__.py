"""A diagnosis as one self-contained HTML page: `report(found, "report.html")`.

The package isn't called `report`: importing a package sets its name on `softscope`, and `softscope.report` is the call.
"""

from .page import report

__all__ = ["report"]
