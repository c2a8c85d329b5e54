"""A diagnosis as one self-contained HTML page: `report(diagnosis, "report.html")`; on a terminal; in a notebook.

The package isn't called `report`: importing a package sets its name on `softscope`, and `softscope.report` is the call.
"""

from typing import TYPE_CHECKING

from ..lazy import lazily
from .page import report
from .terminal import show
from .verdict import estimator_words

if TYPE_CHECKING:
    from .tuning import against_likelihood, against_options

__getattr__ = lazily(__name__, {"tuning": ("against_likelihood", "against_options")})

__all__ = ["against_likelihood", "against_options", "estimator_words", "report", "show"]
