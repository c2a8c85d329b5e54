"""How many threads the numeric libraries of a process use: fixed by settings, so that a repeat gives the same bits."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..provenance import cores

_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Let BLAS, OpenMP, torch and numba use `threads` threads in this process; afterwards as many as before."""
    from threadpoolctl import threadpool_limits

    torch, numba = sys.modules.get("torch"), sys.modules.get("numba")
    torch_before = torch.get_num_threads() if torch else cores()
    numba_before = numba.get_num_threads() if numba else 0
    with environment(threads), threadpool_limits(threads):
        if torch:
            torch.set_num_threads(threads)
        if numba:
            numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        try:
            yield
        finally:
            if numba:
                numba.set_num_threads(numba_before)
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(torch_before)


@contextmanager
def environment(threads: int, *, child: bool = False) -> Iterator[None]:
    """Variables that libraries loaded inside, or a child process started inside, read when they start."""
    # numba refuses a changed NUMBA_NUM_THREADS once its threads run, so only a child is told this way.
    names = (*_VARIABLES, "NUMBA_NUM_THREADS") if child else _VARIABLES
    # Threads that spin while they wait halve the speed of whatever else runs on the machine.
    wanted = dict.fromkeys(names, str(threads)) | {"OMP_WAIT_POLICY": "PASSIVE"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
