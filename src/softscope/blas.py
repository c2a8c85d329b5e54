"""What this machine's BLAS does: how many threads it takes, and how it rounds.

Work too small to share runs on one thread: a Cholesky factor of 512 x 512 takes 3 ms on one thread, and half a second
on two whose core another process has.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

_limiting = Lock()
_before = 1


@contextmanager
def one_blas_thread() -> Iterator[int]:
    """BLAS and LAPACK on a single thread inside; gives how many they have outside.

    The number belongs to the process. Whoever comes while it is limited, nested or in another thread, leaves it alone:
    to restore it is the first one's business.
    """
    global _before
    if not _limiting.acquire(blocking=False):
        yield _before
        return
    try:
        blas = _libraries()
        _before = max((library["num_threads"] for library in blas.info()), default=1)
        with blas.limit(limits=1):
            yield _before
    finally:
        _limiting.release()


@cache
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401  brings a BLAS of its own, which must be loaded to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@cache
def rows_round_alike() -> bool:
    """Whether a float32 product rounds a row the same at every place of a block.

    OpenBLAS's kernels for AVX2 add up half of each tile in another order, so that equal rows get different last bits;
    those for AVX-512 don't. Products in float64 rounded alike on every processor tried.
    """
    row, columns = (
        np.sin(np.arange(40, dtype=np.float32)),
        np.cos(np.arange(40 * 100, dtype=np.float32)).reshape(40, -1),
    )
    for classes in (10, 16, 100):
        block = np.matmul(np.tile(row, (256, 1)), np.ascontiguousarray(columns[:, :classes]))
        if not (block == block[0]).all():
            return False
    return True
