"""BLAS on one thread: nested, from several threads, and restored."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from threadpoolctl import ThreadpoolController

from softscope.blas import one_blas_thread


def counts() -> set[int]:
    return {library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()}


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    import scipy.linalg  # noqa: F401

    before = max(counts())
    _set(2)
    yield
    _set(before)


def _set(threads: int) -> None:
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        library.set_num_threads(threads)
        library.clear_controlling_thread()  # else no other thread may set it


def test_every_blas_has_one_thread_inside_and_as_many_as_before_outside() -> None:
    with one_blas_thread() as outside:
        assert counts() == {1}
        assert outside == 2
    assert counts() == {2}


def test_an_inner_call_does_not_undo_the_outer_one() -> None:
    with one_blas_thread():
        with one_blas_thread() as outside:
            assert outside == 2
        assert counts() == {1}
    assert counts() == {2}


def test_the_limit_is_lifted_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert counts() == {2}


def test_threads_that_come_and_go_in_any_order_leave_the_number_as_it_was() -> None:
    entered, first_left = Barrier(2), Barrier(2)

    def leaves_first() -> None:
        with one_blas_thread():
            entered.wait()
        first_left.wait()

    def leaves_last() -> None:
        with one_blas_thread():
            entered.wait()
            first_left.wait()

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(leaves_first), pool.submit(leaves_last)]:
            future.result()
    assert counts() == {2}
