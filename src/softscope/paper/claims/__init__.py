"""Every claim of the paper with an executable check: `REGISTER`, `find`, `check_all`, `stands`."""

from . import gradients, learning, linear, optimum, order, printed, regions, trained, volume
from .register import CONTRADICTED, MEANINGS, UNDECIDED, VERDICTS, Claim, Outcome, check_all, find, registered, stands

# Importing a module enters its checks; the register is complete when all of them are in.
_MODULES = (gradients, learning, linear, optimum, order, printed, regions, trained, volume)
REGISTER = registered()

__all__ = [
    "CONTRADICTED",
    "MEANINGS",
    "REGISTER",
    "UNDECIDED",
    "VERDICTS",
    "Claim",
    "Outcome",
    "check_all",
    "find",
    "stands",
]
