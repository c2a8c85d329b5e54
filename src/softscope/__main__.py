"""`python -m softscope` is `softscope`."""

from .cli import main

main()
