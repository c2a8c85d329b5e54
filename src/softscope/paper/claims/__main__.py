"""`python -m softscope.paper.claims results`: gather the evidence of trained networks into the package."""

import sys

from .evidence import keep

keep(sys.argv[1] if len(sys.argv) > 1 else "results")
