"""`CompiledBlock`: what `Block` reads off rows and their logits, each quantity in one sweep by a compiled loop.

Nothing but the result is written: no array of the size of the rows, and of the size of the logits the softmax alone.
Agrees with the numpy formulas of `Block` to 1e-12, and a row's values do not depend on the rows beside it.
"""

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats
from ..compiling import compiled, exp
from .base import Block
from .compiled import tails
from .softmax import Tail

_GAMMA = 0.1  # GEN's default: e^x is the 10th power of e^(gamma x)
_DEGREE = 17  # (1 - s)^gamma for 0 <= s <= 1/2 to 1e-13: the error falls by 3 + sqrt(8) with each degree
_LANES = 8  # float64 of the widest vector: sums over classes run over whole vectors


class CompiledBlock(Block):
    """A block of a large set; of a row whose logits are not all finite, the values mean nothing."""

    @cached_property
    def _tails(self) -> tuple[Tail, Tail]:
        sums = np.empty((2, 4, len(self.logits)))
        tails(self.logits, np.zeros_like(self.logits[0]), 1.0 / self.temperature, sums[0], sums[1])
        return Tail(*sums[0]), Tail(*sums[1])

    @cached_property
    def warm(self) -> Tail:
        return self._tails[0]

    @cached_property
    def cool(self) -> Tail:
        return self._tails[1]

    @cached_property
    def first(self) -> Floats:
        return self.warm.first

    @cached_property
    def sizes(self) -> Floats:
        return self._each(_absolute_sums, self.rows)

    @cached_property
    def softmax(self) -> Floats:
        out = np.empty(self.logits.shape)
        _softmax(self.logits, self.warm.energy(), out)
        return out

    @cached_property
    def off_uniform(self) -> Floats:
        return self._each(_off_uniform, self.softmax)

    @cached_property
    def minus_entropy(self) -> Floats:
        return -self.warm.entropy()

    def distances(self, mean: Floats) -> Floats:
        return np.sqrt(self._each(_square_distances, self.rows, mean))

    def inner(self, patterns: Floats) -> Floats:
        return self._each(_inner_products, self.rows, patterns, self.predicted)

    def room(self, weights: Floats) -> Floats:
        return self._each(_rooms, self.logits, self.first, weights, self.predicted)

    def log_generalised_entropy(self, gamma: float, top: int) -> Floats:
        """As `softmax.log_generalised_entropy`, pivoted on the runner-up's probability q.

        With x_j = l_j - l_2 the losers' terms over q^gamma are (e^x_j (1 - s_j))^gamma, the winner's, as
        1 - s_1 = q rest, is (s_1 rest)^gamma. (1 - s_j)^gamma is a polynomial, as s_j <= 1/2.
        """
        if gamma != _GAMMA or self.logits.shape[1] > top:
            return super().log_generalised_entropy(gamma, top)
        tail = self.warm
        log_first = tail.log_first()
        log_second = log_first - tail.gap
        losers = self._each(
            _loser_terms, self.logits, tail.first - tail.gap, np.exp(np.maximum(log_second, -700.0)), _powers_of_rest()
        )
        # The winner's x was cut to 0: its term is that of a second runner-up.
        losers -= (1.0 - np.exp(np.maximum(log_second, -700.0))) ** gamma
        return gamma * log_second + np.log(losers + np.exp(gamma * (log_first + np.log(tail.rest))))

    def sum_ratio(self, count: int) -> Floats:
        whole, top = np.empty((2, len(self.rows)))
        _largest_sums(self.rows, count, whole, top)
        return np.divide(whole, top, out=np.zeros(len(whole)), where=top > 0)

    def scaled_energy(self, factors: Floats, bias: Floats) -> Floats:
        return self._each(_scaled_energies, self.logits, factors, bias)

    def _each(self, run: Any, *arguments: Any) -> Floats:
        out = np.empty(len(self.rows))
        run(*arguments, out)
        return out


@lru_cache
def _powers_of_rest() -> Floats:
    """Coefficients of (1 - s)^gamma in powers of 4 s - 1, lowest first, for 0 <= s <= 1/2."""
    from numpy.polynomial import Chebyshev, Polynomial

    fitted = Chebyshev.interpolate(lambda y: (1.0 - (y + 1.0) / 4.0) ** _GAMMA, _DEGREE)
    return np.asarray(fitted.convert(kind=Polynomial).coef, np.float64)


# Sums may be reordered ("reassoc") into vector code; never around `exp`, whose rounding trick that would undo. Loops
# count: those over the values themselves don't become vector code.
@compiled("contract", "nsz", "reassoc")
def _sum(values: Floats) -> float:
    total = 0.0
    for j in range(len(values)):
        total += values[j]
    return total


@compiled("nsz", "reassoc", "nnan")
def _largest(values: NDArray) -> Any:
    top = values[0]
    for j in range(len(values)):
        top = values[j] if values[j] > top else top
    return top


@compiled("contract", "nsz", "reassoc")
def _absolute_sums(rows: NDArray, out: Floats) -> None:
    for row in range(len(rows)):
        line = rows[row]
        total = 0.0
        for j in range(len(line)):
            total += abs(np.float64(line[j]))
        out[row] = total


@compiled("contract", "nsz", "reassoc")
def _square_distances(rows: NDArray, mean: Floats, out: Floats) -> None:
    for row in range(len(rows)):
        line = rows[row]
        total = 0.0
        for j in range(len(mean)):
            step = np.float64(line[j]) - mean[j]
            total += step * step
        out[row] = total


@compiled("contract", "nsz", "reassoc")
def _inner_products(rows: NDArray, patterns: Floats, predicted: NDArray, out: Floats) -> None:
    for row in range(len(rows)):
        line, pattern = rows[row], patterns[predicted[row]]
        total = 0.0
        for j in range(len(line)):
            total += np.float64(line[j]) * pattern[j]
        out[row] = total


@compiled("contract", "nsz", "reassoc")
def _rooms(logits: NDArray, first: Floats, weights: Floats, predicted: NDArray, out: Floats) -> None:
    for row in range(len(logits)):
        line, weight, largest = logits[row], weights[predicted[row]], first[row]
        total = 0.0
        for j in range(len(line)):
            total += (np.float64(line[j]) - largest) * weight[j]
        out[row] = total


@compiled("contract", "nsz", "reassoc")
def _off_uniform(softmax: Floats, out: Floats) -> None:
    classes = softmax.shape[1]
    for row in range(len(softmax)):
        line = softmax[row]
        total = 0.0
        for j in range(classes):
            total += abs(classes * line[j] - 1.0)
        out[row] = total


@compiled("contract", "nsz")
def _softmax(logits: NDArray, energy: Floats, out: Floats) -> None:
    """exp(l_j + energy), energy = -log sum_i exp(l_i)."""
    for row in range(len(logits)):
        line, own = logits[row], out[row]
        for j in range(len(line)):
            x = np.float64(line[j]) + energy[row]
            x = x if x < 0.0 else 0.0
            own[j] = exp(x if x > -700.0 else -700.0)


@compiled("contract", "nsz")
def _loser_terms(logits: NDArray, second: Floats, share: Floats, coefficients: Floats, out: Floats) -> None:
    """sum_j (e^x_j (1 - share e^x_j))^gamma, x_j = l_j - second, cut to 0 for the winner."""
    classes = logits.shape[1]
    terms = np.zeros((classes + _LANES - 1) // _LANES * _LANES)
    for row in range(len(logits)):
        line, pivot, of = logits[row], second[row], share[row]
        for j in range(classes):
            x = np.float64(line[j]) - pivot
            x = (x if x < 0.0 else 0.0) * _GAMMA
            power = exp(x if x > -70.0 else -70.0)
            square = power * power
            fourth = square * square
            y = 4.0 * of * (fourth * fourth * square) - 1.0
            rest = coefficients[_DEGREE]
            for degree in range(_DEGREE - 1, -1, -1):
                rest = rest * y + coefficients[degree]
            terms[j] = power * rest
        out[row] = _sum(terms)


@compiled("contract", "nsz")
def _scaled_energies(logits: NDArray, factors: Floats, bias: Floats, out: Floats) -> None:
    """-log sum_j exp((l_j - b_j) factor + b_j)."""
    classes = logits.shape[1]
    scaled = np.full((classes + _LANES - 1) // _LANES * _LANES, -np.inf)
    powers = np.zeros_like(scaled)
    for row in range(len(logits)):
        line, factor = logits[row], factors[row]
        for j in range(classes):
            scaled[j] = (np.float64(line[j]) - bias[j]) * factor + bias[j]
        top = _largest(scaled)
        for j in range(len(scaled)):
            x = scaled[j] - top
            powers[j] = exp(x if x > -700.0 else -700.0)
        out[row] = -(top + np.log(_sum(powers)))


@compiled("nsz", "reassoc", "nnan")
def _count_above(line: NDArray, threshold: Any) -> Any:
    count = np.int32(0)
    for j in range(len(line)):
        count += np.int32(line[j] > threshold)
    return count


@compiled("contract", "nsz", "reassoc", "nnan")
def _sums_above(line: NDArray, threshold: Any) -> tuple[float, float]:
    """Of what is positive: the whole sum, and that of what is above the threshold."""
    whole = top = 0.0
    for j in range(len(line)):
        value = np.float64(line[j])
        value = max(value, np.float64(0.0))
        whole += value
        top += value if line[j] > threshold else 0.0
    return whole, top


@compiled("nsz")
def _largest_sums(rows: NDArray, count: int, whole: Floats, top: Floats) -> None:
    """Sums of each row and of its `count` largest entries, those below 0 counted as 0.

    No sorting: a threshold with `count` entries above it is searched between bounds, by the false position and every
    third time by halves, from that of the row before. What it finds does not depend on where it starts.
    """
    kind = rows.dtype.type
    guess = kind(0.0)
    for row in range(len(rows)):
        line = rows[row]
        low, high = kind(0.0), _largest(line)
        above_low, above_high = _count_above(line, low), 0
        if above_low <= count:
            whole[row], top[row] = _sums_above(line, low)
            continue
        steps = 0
        while True:
            if steps > 0:
                middle = kind(0.5) * low + kind(0.5) * high
                guess = low + (high - low) * kind((above_low - count) / (above_low - above_high))
                if steps % 3 == 0 or not (low < guess < high):
                    guess = middle
            elif not (low < guess < high):
                guess = kind(0.5) * high
            if not (low < guess < high):
                break
            steps += 1
            above = _count_above(line, guess)
            if above < count:
                high, above_high = guess, above
            else:
                low, above_low = guess, above
                if above == count:
                    break
        if above_low == count:
            whole[row], top[row] = _sums_above(line, low)
        else:  # no number lies between the bounds: entries equal to `high` fill up
            whole[row], part = _sums_above(line, high)
            top[row] = part + (count - above_high) * np.float64(high)
