"""Counter-based inputs: the stream is what its formula says, reversible, fair, and laid out as the network sees it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softscope.errors import SoftscopeError
from softscope.paper.filter import inputs

_ALL = (1 << 64) - 1
_WORD = st.integers(0, _ALL)


def _unmix(x: int) -> int:
    """The inverse of SplitMix64's finaliser, by inverses of its odd factors and of its xor-shifts."""
    x ^= (x >> 31) ^ (x >> 62)
    x = x * pow(0x94D049BB133111EB, -1, 1 << 64) & _ALL
    x ^= (x >> 27) ^ (x >> 54)
    x = x * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) & _ALL
    return x ^ (x >> 30) ^ (x >> 60)


@given(_WORD, _WORD, st.integers(0, 5))
def test_the_number_of_an_input_can_be_recovered_from_its_word(seed: int, number: int, word: int) -> None:
    recovered = int(inputs.words(seed, number, word)[0])
    back = (_unmix(recovered) - inputs.key(seed, word)) * pow(inputs.GOLDEN, -1, 1 << 64) & _ALL
    assert back == number


def test_the_mixing_is_splitmix64_with_its_published_values() -> None:
    # The first outputs of SplitMix64 from state 0, as in the reference implementation by Vigna.
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [inputs._mix(inputs.GOLDEN * n & _ALL) for n in (1, 2, 3)] == expected


def test_any_part_of_the_stream_is_the_same_as_in_the_whole() -> None:
    whole = inputs.images(7, np.arange(100), (9, 9))
    np.testing.assert_array_equal(inputs.images(7, np.arange(40, 60), (9, 9)), whole[40:60])
    assert not np.array_equal(inputs.images(8, np.arange(100), (9, 9)), whole)


def test_every_pixel_is_a_fair_coin_and_no_two_pixels_agree_too_often() -> None:
    rows = 1 << 16
    bits = inputs.images(3, np.arange(rows), (9, 9)).reshape(rows, 81).astype(np.float64) - 0.5
    assert np.abs(bits.mean(axis=0)).max() < 5 * 0.5 / np.sqrt(rows)
    correlation = 4 * bits.T @ bits / rows - np.eye(81)
    assert np.abs(correlation).max() < 5.5 / np.sqrt(rows)


@given(st.lists(_WORD, min_size=1, max_size=5))
def test_packing_undoes_unpacking(numbers: list[int]) -> None:
    words = np.array(numbers, dtype=np.uint64)
    np.testing.assert_array_equal(inputs.pack(inputs.unpack(words)), words)


def test_the_first_word_of_a_9x9_input_is_its_upper_left_8x8() -> None:
    numbers = np.arange(50)
    np.testing.assert_array_equal(inputs.pack(inputs.images(1, numbers, (9, 9))), inputs.words(1, numbers))


@pytest.mark.parametrize("shape", [(9, 9), (3, 4), (1, 70)])
def test_each_bit_has_its_own_pixel(shape: tuple[int, int]) -> None:
    assert sorted(inputs.pixel_order(shape)) == list(range(shape[0] * shape[1]))


@pytest.mark.parametrize("seed", [-1, 1 << 64])
def test_a_seed_outside_64_bits_is_refused(seed: int) -> None:
    with pytest.raises(SoftscopeError, match="seed"):
        inputs.words(seed, 0)
