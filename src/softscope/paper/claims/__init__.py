"""Every claim of the paper with an executable check: `REGISTER`, `find`, `check`, `check_all`."""

from .base import CONTRADICTED, MEANINGS, OPEN, VERDICTS, Claim, Finding
from .register import REGISTER, check, check_all, find, stands

__all__ = [
    "CONTRADICTED",
    "MEANINGS",
    "OPEN",
    "REGISTER",
    "VERDICTS",
    "Claim",
    "Finding",
    "check",
    "check_all",
    "find",
    "stands",
]
