"""Uncertainties that read the logits: the paper's E1-E3, and beside them margin, max-logit and energy.

Pure functions on logits [N, K]; the classes that hold a head are in `logits`. Each score has two forms: the value as
the paper computes it (`plain_...`, float32, saturates) and a rank form in float64 with the same ordering in exact
arithmetic, which can't saturate because it pivots on the runner-up, never on the winner.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats

# Below this a term can't move a float64 sum that holds a 1, and exp would return denormals, which are slow.
_NEGLIGIBLE = -700.0


@dataclass(frozen=True)
class Tail:
    """What every rank form reads of a row of logits, sorted l_1 >= l_2 >= ..., at one temperature: float64 [N] each.

    With x_j = (l_j - l_2) / temperature, `gap` = (l_1 - l_2) / temperature, `rest` = sum_{j >= 2} exp(x_j), which is
    at least 1, and `moment` = sum_{j >= 2} x_j exp(x_j). The softmax's mass off the winner is s_1 exp(-gap) rest.
    """

    first: Floats
    gap: Floats
    rest: Floats
    moment: Floats

    @classmethod
    def of(cls, logits: NDArray, temperature: float = 1.0) -> "Tail":
        """The tails of rows of logits (`compiled.tails` is the same, faster)."""
        first, gap, below = _sorted_parts(logits, temperature)
        powers = np.exp(below)
        return cls(first, gap, powers.sum(axis=1), (below * powers).sum(axis=1))

    def margin(self) -> Floats:
        """-(l_1 - l_2), at temperature 1."""
        return -self.gap

    def max_logit(self) -> Floats:
        """-l_1."""
        return -self.first

    def log_odds(self) -> Floats:
        """log((1 - s_1) / s_1) = log(rest) - gap."""
        return np.log(self.rest) - self.gap

    def log_entropy(self) -> Floats:
        """log H of the entropy H = log1p(S) + T / (1 + S), see `entropy`, with exp(-gap) taken out of S and T.

        S = exp(-gap) rest and T = exp(-gap) (gap rest - moment), so that
        log H = -gap + log(rest log1p(S)/S + (gap rest - moment) / (1 + S)), finite however large the gap is.
        """
        spread = self.gap * self.rest - self.moment
        return np.log(self.rest * (self._log1p_mass / self._mass) + spread / (1.0 + self._mass)) - self.gap

    def entropy(self) -> Floats:
        """H itself, which runs out of digits where the softmax saturates."""
        spread = np.exp(np.maximum(-self.gap, _NEGLIGIBLE)) * (self.gap * self.rest - self.moment)
        return self._log1p_mass + spread / (1.0 + self._mass)

    def energy(self) -> Floats:
        """-log sum_i exp(l_i) = -(l_1 + log1p(S)), at temperature 1."""
        return -(self.first + self._log1p_mass)

    def log_first(self) -> Floats:
        """log s_1 = -log1p(S)."""
        return -self._log1p_mass

    @cached_property
    def _mass(self) -> Floats:
        return np.exp(np.maximum(-self.gap, _NEGLIGIBLE)) * self.rest

    @cached_property
    def _log1p_mass(self) -> Floats:
        return np.log1p(self._mass)


def log_odds(logits: NDArray) -> Floats:
    """E1, rank form of U_max: log((1 - s_1) / s_1) = (l_2 - l_1) + log sum_{j >= 2} exp(l_j - l_2), logits sorted."""
    return Tail.of(logits).log_odds()


def plain_max(logits: NDArray) -> NDArray:
    """E1 as printed, U_max = -max_i s_i, in the precision of `logits`; exactly -1 once the softmax saturates."""
    return np.asarray(-softmax(logits).max(axis=1))


def softmax(logits: NDArray) -> NDArray:
    """s_i = exp(l_i) / sum_j exp(l_j) in the precision of `logits`, with the largest logit subtracted first."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def entropy(logits: NDArray) -> NDArray:
    """E2, U_entropy = -sum_i s_i log s_i, to full relative accuracy down to the smallest normal number.

    With d_j = l_1 - l_j, S = sum_{j >= 2} exp(-d_j) and T = sum_{j >= 2} d_j exp(-d_j), the entropy is
    log1p(S) + T / (1 + S): no term is negative, so nothing cancels. Rounded to the precision of `logits`.
    """
    _, gap, below = _sorted_parts(logits)
    depths = np.minimum(gap[:, None] - below, -_NEGLIGIBLE)
    powers = np.exp(-depths)
    rest = powers.sum(axis=1)
    return np.asarray((np.log1p(rest) + (depths * powers).sum(axis=1) / (1.0 + rest)).astype(logits.dtype))


def log_entropy(logits: NDArray, temperature: float = 1.0) -> Floats:
    """E2, rank form: log U_entropy of logits / temperature; E3 (U_cool) at temperature 10."""
    return Tail.of(logits, temperature).log_entropy()


def plain_entropy(logits: NDArray, temperature: float = 1.0) -> NDArray:
    """E2 as printed, -sum_i s_i log s_i of a softmax in the precision of `logits`, with 0 log 0 = 0; E3 at 10."""
    s = softmax(logits / logits.dtype.type(temperature))
    return np.asarray(-(s * np.log(np.where(s > 0, s, s.dtype.type(1)))).sum(axis=1))


def log_generalised_entropy(logits: NDArray, gamma: float = 0.1, top: int = 100) -> Floats:
    """log sum_j (s_j (1 - s_j))^gamma over the `top` largest s_j, from log s_j and log(1 - s_j).

    With o = log((1 - s_1) / s_1), pivoted on the runner-up: log s_1 = -log(1 + e^o), log(1 - s_1) = o + log s_1; the
    other s_j are at most 1/2, where log1p(-s_j) is accurate.
    """
    odds = log_odds(logits)
    log_first = -np.logaddexp(0.0, odds)
    largest = logits if logits.shape[1] <= top else np.partition(logits, -top, axis=1)[:, -top:]
    winner = largest.argmax(axis=1)[:, None]
    log_s = largest.astype(np.float64)
    log_s += log_first[:, None] - np.take_along_axis(log_s, winner, axis=1)
    # The bounds leave every s_j but the winner's as it is, and spare the winner's log1p(-1) and denormals.
    log_rest = np.log1p(-np.exp(np.clip(log_s, -700.0, -np.log(2.0))))
    np.put_along_axis(log_rest, winner, (odds + log_first)[:, None], axis=1)
    terms = gamma * (log_s + log_rest)
    peak = terms.max(axis=1)
    return np.asarray(peak + np.log(np.exp(np.maximum(terms - peak[:, None], -700.0)).sum(axis=1)))


def margin(logits: NDArray) -> Floats:
    """-(l_1 - l_2): minus the gap between the two largest logits."""
    return -_sorted_parts(logits)[1]


def max_logit(logits: NDArray) -> Floats:
    """-l_1: minus the largest logit."""
    return np.asarray(-logits.max(axis=1).astype(np.float64))


def energy(logits: NDArray) -> Floats:
    """-log sum_i exp(l_i), the free energy at temperature 1."""
    first = logits.max(axis=1).astype(np.float64)
    return np.asarray(-first - np.log(np.exp(np.maximum(logits - first[:, None], _NEGLIGIBLE)).sum(axis=1)))


def _sorted_parts(logits: NDArray, temperature: float = 1.0) -> tuple[Floats, Floats, Floats]:
    """l_1, l_1 - l_2 and, for every j but the winner, l_j - l_2 (clamped where its exp is negligible), in float64.

    Differences are taken before they are divided by the temperature: of float32 logits they are exact.
    """
    ordered = np.partition(logits.astype(np.float64), -2, axis=1)
    first, second = ordered[:, -1], ordered[:, -2]
    below = (ordered[:, :-1] - second[:, None]) / temperature
    return first, (first - second) / temperature, np.maximum(below, _NEGLIGIBLE)
