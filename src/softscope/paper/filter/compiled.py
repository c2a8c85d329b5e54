"""A network on bits, compiled: features and logits of 64-bit words by table look-up and small matrix products.

Each position of the first convolution sees 9 bits, so all it can say is a table of 512 rows. Behind its ReLU the second
convolution is a sum over nine offsets of a linear map of such a row: nine tables of 512 x 32 (590 KB, which a core's
second-level cache holds), of which a position adds up one row each.

Sums are taken three rows at a time: with more arrays in one loop the compiler no longer checks that what it writes
doesn't overlap the tables, and then it can't use vectors.
"""

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...compiling import compiled, exp
from .inputs import GOLDEN

CHUNK = 256  # inputs at a time: what lies between two steps stays in the second-level cache beside the tables
NORM_FLOOR = (127 - 8) << 5  # where the bins of norm(z) begin, 2^-8, among the leading bits of float32
_FAR = -80.0  # a logit so far below the first moves no sum, and its exp is not denormal

_G, _M1, _M2 = np.uint64(GOLDEN), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
_SEVEN, _3, _6, _8, _16 = np.uint64(7), np.uint64(3), np.uint64(6), np.uint64(8), np.uint64(16)


@compiled()
def fill_words(key: np.uint64, first: np.uint64, out: NDArray) -> None:
    """Words of inputs `first`, `first` + 1, ... (`inputs.words`)."""
    x = first * _G + key
    for i in range(out.size):
        y = (x ^ (x >> _S30)) * _M1
        y = (y ^ (y >> _S27)) * _M2
        out[i] = y ^ (y >> _S31)
        x += _G


@compiled()
def _patches(word: np.uint64, patch: NDArray) -> None:
    """The nine bits of each 3x3 patch of the 8x8 pixels, row by row."""
    for r in range(6):
        rows = word >> np.uint64(8 * r)
        for c in range(6):
            own = rows >> np.uint64(c)
            bits = (own & _SEVEN) | (((own >> _8) & _SEVEN) << _3) | (((own >> _16) & _SEVEN) << _6)
            patch[6 * r + c] = bits


@compiled("nnan", "nsz")
def pooled_two(words: NDArray, tables: NDArray, out: NDArray) -> None:
    """ReLU(pool(conv(ReLU(conv)))) of each word: out [N, 4 * 32], from `tables` [512 * 9 * 32]."""
    patch, total = np.empty(36, np.uint64), np.empty(32, np.float32)
    for n in range(words.size):
        _patches(words[n], patch)
        for window in range(4):
            largest = out[n, 32 * window : 32 * window + 32]
            largest[:] = np.float32(0.0)
            for place in range(4):
                at = 12 * (window // 2) + 2 * (window % 2) + 6 * (place // 2) + place % 2
                total[:] = np.float32(0.0)
                for row in range(3):
                    first, second, third = (
                        tables[_row(patch[at + 6 * row], 3 * row) :],
                        tables[_row(patch[at + 6 * row + 1], 3 * row + 1) :],
                        tables[_row(patch[at + 6 * row + 2], 3 * row + 2) :],
                    )
                    for c in range(32):
                        total[c] = total[c] + first[c] + second[c] + third[c]
                for c in range(32):
                    largest[c] = max(largest[c], total[c])


@compiled()
def _row(bits: np.uint64, offset: int) -> np.int64:
    """Where the 32 channels of one of the nine tables begin."""
    return 288 * np.int64(bits) + 32 * offset


@compiled("nnan", "nsz")
def pooled_one(words: NDArray, tables: NDArray, out: NDArray) -> None:
    """ReLU(pool(conv)) of each word: out [N, 9 * 16], from `tables` [512 * 16]."""
    patch = np.empty(36, np.uint64)
    for n in range(words.size):
        _patches(words[n], patch)
        for window in range(9):
            largest = out[n, 16 * window : 16 * window + 16]
            largest[:] = np.float32(0.0)
            for place in range(4):
                at = 12 * (window // 3) + 2 * (window % 3) + 6 * (place // 2) + place % 2
                own = tables[16 * np.int64(patch[at]) :]
                for c in range(16):
                    largest[c] = max(largest[c], own[c])


@compiled("nnan", "nsz", "contract")
def add_and_clip(z: NDArray, bias: NDArray) -> None:
    """ReLU(z + bias) in place."""
    for n in range(z.shape[0]):
        for i in range(bias.size):
            z[n, i] = max(z[n, i] + bias[i], np.float32(0.0))


@compiled("reassoc", "nnan", "nsz", "contract")
def norms(z: NDArray, out: NDArray) -> None:
    """norm(z) of each row."""
    for n in range(z.shape[0]):
        total = np.float32(0.0)
        for i in range(z.shape[1]):
            total += z[n, i] * z[n, i]
        out[n] = np.sqrt(total)


@compiled("contract", "nsz")
def summarise(products: NDArray, bias: NDArray, length: NDArray, inverse: NDArray, out: Floats, best: NDArray) -> None:
    """Per input n, from `products` w_k z [K, N], the norms `length` of z, and `inverse` 1 / norm(w_k):

    best[n] = argmax_k l_k,  l = products + bias
    out[0, n] = log(p / (1 - p)) of p = max softmax(l), in the form -log sum_(k != best) exp(l_k - l_best)
    out[1, n] = the entropy log(1 + s) + t / (1 + s), s = sum exp(d_k), t = sum -d_k exp(d_k), d_k = l_k - l_best
    out[2, n] = max_k cos(w_k, z), 0 where z = 0
    """
    classes, rows = products.shape
    top = np.full(rows, -np.inf, np.float32)
    cosine = np.full(rows, -np.inf, np.float32)
    for k in range(classes):
        for n in range(rows):
            logit = products[k, n] + bias[k]
            better = logit > top[n]
            best[n] = k if better else best[n]
            top[n] = logit if better else top[n]
            cosine[n] = max(cosine[n], products[k, n] * inverse[k])
    s, t = out[0], out[1]
    s[:] = 0.0
    t[:] = 0.0
    for k in range(classes):
        for n in range(rows):
            d = max(np.float64(products[k, n] + bias[k]) - np.float64(top[n]), _FAR)
            e = 0.0 if k == best[n] else exp(d)
            s[n] += e
            t[n] -= d * e
    for n in range(rows):
        rest, spread = s[n], t[n]
        out[0, n] = -np.log(rest)
        out[1, n] = np.log1p(rest) + spread / (1.0 + rest)
        out[2, n] = cosine[n] / length[n] if length[n] > 0 else 0.0


@compiled()
def collect(
    out: Floats, length: NDArray, best: NDArray, first: np.uint64, rows: int,
    scales: Floats, starts: NDArray, counts: NDArray, odds: Floats, numbers: NDArray,
) -> None:  # fmt: skip
    """Count the first `rows` inputs into `counts` [K, bins] and keep the most confident of each class.

    `scales` [3, 2] are low end and bins per unit of log-odds, entropy and cosine; `starts` [5] where the bins of
    log-odds, entropy, norm and cosine begin and end. Ties go to the lower input number.
    """
    leading = length.view(np.int32)
    for n in range(rows):
        own = counts[best[n]]
        for q in range(3):
            at = 3 if q == 2 else q
            size = starts[at + 1] - starts[at]
            bin_ = np.int64(np.floor((out[q, n] - scales[q, 0]) * scales[q, 1]))
            own[starts[at] + min(max(bin_, 0), size - 1)] += 1
        # The leading bits of a float32 are 32 even steps an octave, exactly.
        step = np.int64(leading[n] >> 18) - NORM_FLOOR
        own[starts[2] + min(max(step, 0), starts[3] - starts[2] - 1)] += 1
        if out[0, n] > odds[best[n], -1]:
            _insert(odds[best[n]], numbers[best[n]], out[0, n], first + np.uint64(n))


@compiled()
def _insert(odds: Floats, numbers: NDArray, value: float, number: np.uint64) -> None:
    at = odds.size - 1
    while at > 0 and value > odds[at - 1]:
        odds[at], numbers[at] = odds[at - 1], numbers[at - 1]
        at -= 1
    odds[at], numbers[at] = value, number


@compiled()
def features(depth: int, words: NDArray, tables: NDArray, third: NDArray, bias: NDArray, pooled: NDArray) -> NDArray:
    """z of CHUNK words; with 3 convolutions the last is a matrix product over all that the pooling leaves."""
    if depth == 1:
        pooled_one(words, tables, pooled)
        return pooled
    pooled_two(words, tables, pooled)
    if depth == 2:
        return pooled
    z: NDArray = np.dot(pooled, third)
    add_and_clip(z, bias)
    return z


@compiled()
def scan_words(
    key: np.uint64, start: int, stop: int, depth: int,
    tables: NDArray, third: NDArray, third_bias: NDArray, weight: NDArray, bias: NDArray, inverse: NDArray,
    scales: Floats, starts: NDArray, counts: NDArray, odds: Floats, numbers: NDArray,
) -> None:  # fmt: skip
    """Inputs `start` to `stop` through the network into the statistics; `start` is a multiple of CHUNK.

    The last chunk is computed whole, and counted in part: the same products for an input wherever a range ends.
    """
    words = np.empty(CHUNK, np.uint64)
    pooled = np.empty((CHUNK, 144 if depth == 1 else 128), np.float32)
    length = np.empty(CHUNK, np.float32)
    out = np.empty((3, CHUNK))
    best = np.zeros(CHUNK, np.int64)
    for first in range(start, stop, CHUNK):
        fill_words(key, np.uint64(first), words)
        z = features(depth, words, tables, third, third_bias, pooled)
        norms(z, length)
        products = np.dot(weight, z.T)
        summarise(products, bias, length, inverse, out, best)
        rows = min(CHUNK, stop - first)
        collect(out, length, best, np.uint64(first), rows, scales, starts, counts, odds, numbers)
