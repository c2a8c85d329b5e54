"""AUROC, DeLong's interval and test, average precision, FPR at recall, ROC curve, each against a second computation."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from softscope import SoftscopeError
from softscope.metrics import auroc, auroc_difference, average_precision, fpr_at_recall, order, roc_curve

FEW_VALUES = st.lists(st.sampled_from([-2.5, -1.0, -0.0, 0.0, 1e-300, 0.5, 3.0]), min_size=1, max_size=40)
ANY_VALUES = st.lists(st.floats(allow_nan=False), min_size=1, max_size=40)
SCORES = FEW_VALUES | ANY_VALUES


@pytest.fixture(params=["numpy", "compiled"])
def path(request, monkeypatch):
    """Both ways to sort and count, whatever the size."""
    monkeypatch.setattr(order, "COMPILED_FROM", 0 if request.param == "compiled" else 1 << 62)
    return request.param


def draw(familiar, unfamiliar, *, shift=0.7, decimals=15, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(0, 1, familiar).round(decimals), generator.normal(shift, 1, unfamiliar).round(decimals)


def by_pairs(familiar, unfamiliar):
    """The definition, pair by pair, as an exact fraction."""
    wins = sum(Fraction(2 * (high > low) + (high == low), 2) for low in familiar for high in unfamiliar)
    return wins / (len(familiar) * len(unfamiliar))


def delong_by_pairs(familiar, unfamiliar):
    """Value and DeLong's variance from the n x m table of comparisons."""
    table = np.where(unfamiliar > familiar[:, None], 1.0, np.where(unfamiliar == familiar[:, None], 0.5, 0.0))
    n, m = table.shape
    return table.mean(), table.mean(axis=1).var(ddof=1) / n + table.mean(axis=0).var(ddof=1) / m


class TestAuroc:
    def test_by_hand(self):
        # Pairs: (1,2) yes, (1,3) yes, (2,2) half, (2,3) yes, (5,2) no, (5,3) no -> 3.5 of 6.
        assert auroc([1.0, 2.0, 5.0], [2.0, 3.0]).value == 3.5 / 6

    @given(SCORES, SCORES)
    def test_equals_the_definition_pair_by_pair(self, familiar, unfamiliar):
        assert auroc(familiar, unfamiliar).value == float(by_pairs(familiar, unfamiliar))

    @given(SCORES, SCORES)
    def test_the_compiled_path_gives_the_same_numbers(self, familiar, unfamiliar):
        plain = auroc(familiar, unfamiliar)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(order, "COMPILED_FROM", 0)
            fast = auroc(familiar, unfamiliar)
        assert fast.value == plain.value
        assert (fast.low, fast.high) == pytest.approx((plain.low, plain.high), abs=1e-12)

    @given(SCORES, SCORES)
    def test_swapping_the_sides_gives_one_minus_auroc(self, familiar, unfamiliar):
        areas, swapped = auroc(familiar, unfamiliar), auroc(unfamiliar, familiar)
        ends = (1 - areas.value, 1 - areas.high, 1 - areas.low)
        assert (swapped.value, swapped.low, swapped.high) == pytest.approx(ends, abs=1e-12)

    @given(FEW_VALUES, FEW_VALUES)
    def test_an_increasing_function_changes_nothing(self, familiar, unfamiliar):
        assert auroc(np.arctan(familiar), np.arctan(unfamiliar)) == auroc(familiar, unfamiliar)

    @given(SCORES, st.randoms())
    def test_a_score_that_says_nothing_gets_one_half(self, scores, random):
        shuffled = random.sample(scores, len(scores))
        area = auroc(scores, shuffled)
        assert area.value == 0.5
        assert area.contains(0.5)

    @pytest.mark.parametrize("decimals", [0, 1, 15])
    def test_agrees_with_scikit_learn(self, path, decimals):
        familiar, unfamiliar = draw(3000, 5000, decimals=decimals)
        truth, scores = np.repeat([0, 1], [3000, 5000]), np.concatenate([familiar, unfamiliar])
        assert auroc(familiar, unfamiliar).value == pytest.approx(sk.roc_auc_score(truth, scores), abs=1e-14)

    def test_agrees_with_mann_whitney(self, path):
        familiar, unfamiliar = draw(70, 45, decimals=1)
        statistic = stats.mannwhitneyu(unfamiliar, familiar).statistic
        assert auroc(familiar, unfamiliar).value == statistic / (70 * 45)

    def test_infinite_scores_are_ordered_and_tie_with_each_other(self, path):
        assert auroc([-np.inf, 0.0, np.inf], [np.inf, np.inf]).value == pytest.approx((1 + 1 + 0.5) / 3)

    def test_minus_zero_equals_zero(self, path):
        assert auroc([0.0, -0.0], [-0.0, 0.0, -0.0]).value == 0.5

    def test_saturated_scores_are_told_apart_to_the_last_bit(self, path):
        familiar = -1 + np.arange(1, 200) * 2.0**-53 * 2
        unfamiliar = np.nextafter(familiar, 0)
        assert auroc(familiar, unfamiliar).value == float(by_pairs(familiar.tolist(), unfamiliar.tolist()))

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f8", np.int32, np.int64, np.uint8, bool])
    def test_every_real_dtype_is_taken_as_it_is(self, path, dtype):
        familiar, unfamiliar = (np.array(side).astype(dtype) for side in ([0, 1, 1, 0, 1], [1, 0, 1]))
        assert auroc(familiar, unfamiliar).value == 8 / 15

    def test_strided_and_read_only_arrays_are_taken(self, path):
        familiar, unfamiliar = draw(40, 60)
        frozen = np.repeat(unfamiliar, 2)[::2]
        frozen.flags.writeable = False
        assert auroc(familiar[::-1], frozen) == auroc(familiar, unfamiliar)

    def test_the_scores_are_left_alone(self, path):
        familiar, unfamiliar = draw(40, 60)
        before = familiar.copy(), unfamiliar.copy()
        auroc(familiar, unfamiliar)
        assert (familiar == before[0]).all()
        assert (unfamiliar == before[1]).all()


class TestDeLong:
    @pytest.mark.parametrize("decimals", [0, 15])
    def test_the_interval_is_delongs_on_large_samples(self, path, decimals):
        familiar, unfamiliar = draw(1500, 1000, decimals=decimals)
        value, variance = delong_by_pairs(familiar, unfamiliar)
        area = auroc(familiar, unfamiliar)
        half = 1.959964 * math.sqrt(variance)
        assert (area.low, area.high) == pytest.approx((value - half, value + half), abs=0.03 * half)

    def test_half_a_pseudo_row_draws_the_variance_towards_its_upper_bound_where_few_rows_are_misordered(self, path):
        familiar, unfamiliar = np.arange(12.0), np.append(np.arange(20.0, 28.0), 10.5)
        a, variance = delong_by_pairs(familiar, unfamiliar)  # one row of 9 is below one of 12
        rows = 9 * (1 - a)  # the rows that speak: far less than one
        spread = (rows * variance / (a * (1 - a)) + 0.5 * (1 / 9)) / (rows + 0.5)
        # Wilson: all p with (a - p)^2 <= z^2 p (1 - p) spread
        z2 = 1.959963984540054**2 * spread
        ends = np.roots([1 + z2, -(2 * a + z2), a * a])
        interval = auroc(familiar, unfamiliar)
        assert (interval.low, interval.high) == pytest.approx((ends.min(), ends.max()), rel=1e-10)
        without = stats.norm.ppf(0.975) * math.sqrt(variance)
        assert a - interval.low > 2 * without, "DeLong's own interval is far too narrow here"

    def test_the_interval_agrees_with_the_bootstrap(self):
        familiar, unfamiliar = draw(400, 300, decimals=1)

        def statistic(low, high, axis):
            return (
                np.stack([auroc(*sides).value for sides in zip(low, high)]) if low.ndim > 1 else auroc(low, high).value
            )

        result = stats.bootstrap(
            (familiar, unfamiliar), statistic, vectorized=True, n_resamples=1000, method="percentile", rng=1
        )
        area = auroc(familiar, unfamiliar)
        ends = result.confidence_interval.low, result.confidence_interval.high
        assert (area.low, area.high) == pytest.approx(ends, abs=0.15 * (area.high - area.low))

    @pytest.mark.parametrize("shape", [(10, 10), (50, 50), (200, 20)])
    @pytest.mark.parametrize("truth", [0.5, 0.8, 0.95, 0.99, 0.999])
    @pytest.mark.parametrize("scale", [1.0, 3.0])
    def test_it_covers_the_truth_at_least_nine_times_in_ten_even_near_one(self, shape, truth, scale):
        generator = np.random.default_rng(7)
        shift = stats.norm.ppf(truth) * math.hypot(1, scale)
        hits = [
            auroc(generator.normal(size=shape[0]), generator.normal(shift, scale, shape[1])).contains(truth)
            for _ in range(400)
        ]
        # 95 % is meant; discreteness costs a little on small samples, as it does Wilson's interval of a share.
        assert np.mean(hits) > 0.9

    def test_perfect_scores_still_have_an_uncertainty_that_shrinks_with_the_rows(self, path):
        lows = [auroc(np.zeros(rows), np.ones(rows)).low for rows in (1, 5, 50, 5000)]
        assert auroc(np.zeros(50), np.ones(50)).high == 1.0
        assert lows == sorted(lows)
        assert lows[0] < 0.3
        assert 0.999 < lows[-1] < 1.0

    def test_half_a_pseudo_row_draws_the_effective_rows_towards_the_real_ones(self):
        """One pair of 16 misordered: DeLong alone claims a (1 - a) / V = 7.5 rows of 4, the pseudo-row leaves 4.74."""
        area = auroc([0.0, 1.0, 2.0, 3.0], [2.5, 4.0, 5.0, 6.0])
        variance = 2 * np.var([1, 1, 1, 0.75], ddof=1) / 4
        speaking, value = 4 / 16, 15 / 16
        rows = (speaking + 0.5) / (speaking * variance / (value * (1 - value)) + 0.5 / 4)
        assert rows == pytest.approx(4.7368, abs=1e-4)
        for end in (area.low, min(area.high, 1.0)):  # each end solves (value - p)^2 = z^2 p (1 - p) / rows
            assert (value - end) ** 2 == pytest.approx(stats.norm.ppf(0.975) ** 2 * end * (1 - end) / rows, abs=1e-12)

    def test_one_row_a_side_says_next_to_nothing(self):
        area = auroc([0.0], [1.0])
        assert (area.value, area.high) == (1.0, 1.0)
        assert area.low < 0.25

    def test_large_tied_samples_agree_with_scikit_learn(self):
        familiar, unfamiliar = draw(200_000, 150_000, decimals=3)
        assert familiar.size + unfamiliar.size > order.COMPILED_FROM
        truth, scores = np.repeat([0, 1], [200_000, 150_000]), np.concatenate([familiar, unfamiliar])
        assert auroc(familiar, unfamiliar).value == pytest.approx(sk.roc_auc_score(truth, scores), abs=1e-13)


class TestDifference:
    @staticmethod
    def two_scores(n, m, seed=0, decimals=15):
        generator = np.random.default_rng(seed)
        familiar, unfamiliar = draw(n, m, shift=1.2, decimals=decimals, seed=seed)
        noise = generator.normal(size=n), generator.normal(size=m)
        return familiar, unfamiliar, (familiar + noise[0]).round(decimals), (unfamiliar + noise[1]).round(decimals)

    @pytest.mark.parametrize("decimals", [0, 15])
    def test_equals_delongs_covariances_pair_by_pair(self, path, decimals):
        a0, a1, b0, b1 = self.two_scores(60, 45, decimals=decimals)
        tables = [
            np.where(high > low[:, None], 1.0, np.where(high == low[:, None], 0.5, 0.0))
            for low, high in ((a0, a1), (b0, b1))
        ]
        rows = np.cov([table.mean(axis=1) for table in tables]) / 60
        columns = np.cov([table.mean(axis=0) for table in tables]) / 45
        contrast = np.array([1.0, -1.0])
        error = math.sqrt(contrast @ (rows + columns) @ contrast)
        value = tables[0].mean() - tables[1].mean()
        compared = auroc_difference(a0, a1, b0, b1)
        assert compared.difference.value == pytest.approx(value, abs=1e-14)
        whole = rows + columns
        together = whole[0, 1] / math.sqrt(whole[0, 0] * whole[1, 1])
        one, two = auroc(a0, a1), auroc(b0, b1)
        speaking = 45 * min(min(each.value, 1 - each.value) for each in (one, two))
        together *= speaking / (speaking + 0.5)
        for arm, first, second in (
            (value - compared.difference.low, one.value - one.low, two.high - two.value),
            (compared.difference.high - value, one.high - one.value, two.value - two.low),
        ):
            assert arm**2 == pytest.approx(first**2 + second**2 - 2 * together * first * second)
        assert compared.p_value == pytest.approx(2 * stats.norm.sf(abs(value) / error))

    def test_agrees_with_the_paired_bootstrap(self):
        a0, a1, b0, b1 = self.two_scores(300, 300)
        generator = np.random.default_rng(1)
        resampled = []
        for _ in range(1000):
            i, j = generator.integers(0, 300, (2, 300))
            resampled.append(auroc(a0[i], a1[j]).value - auroc(b0[i], b1[j]).value)
        difference = auroc_difference(a0, a1, b0, b1).difference
        ends = np.quantile(resampled, [0.025, 0.975])
        assert (difference.low, difference.high) == pytest.approx(
            tuple(ends), abs=0.15 * (difference.high - difference.low)
        )

    def test_equal_scores_are_rejected_one_time_in_twenty(self):
        generator = np.random.default_rng(2)
        p_values = []
        for _ in range(1000):
            common = generator.normal(size=100), generator.normal(1, 1, 100)
            first, second = ([side + generator.normal(size=100) for side in common] for _ in range(2))
            p_values.append(auroc_difference(*first, *second).p_value)
        assert 0.03 < np.mean(np.array(p_values) < 0.05) < 0.075

    def test_the_same_order_is_no_difference(self, path):
        familiar, unfamiliar = draw(50, 40)
        compared = auroc_difference(familiar, unfamiliar, np.exp(familiar), np.exp(unfamiliar))
        assert (compared.difference.value, compared.difference.low, compared.difference.high) == (0.0, 0.0, 0.0)
        assert compared.p_value == 1.0

    @given(FEW_VALUES, FEW_VALUES, st.randoms())
    def test_swapping_the_scores_swaps_the_sign(self, familiar, unfamiliar, random):
        other = random.sample(familiar, len(familiar)), random.sample(unfamiliar, len(unfamiliar))
        one, two = auroc_difference(familiar, unfamiliar, *other), auroc_difference(*other, familiar, unfamiliar)
        ends = (-one.difference.value, -one.difference.high, -one.difference.low, one.p_value)
        numbers = (two.difference.value, two.difference.low, two.difference.high, two.p_value)
        assert numbers == pytest.approx(ends, abs=1e-12)

    @pytest.mark.parametrize("rows", [1, 3, 100])
    def test_a_perfect_score_against_a_useless_one_keeps_its_uncertainty(self, rows):
        compared = auroc_difference(np.zeros(rows), np.ones(rows), np.zeros(rows), np.zeros(rows))
        assert compared.difference.value == 0.5
        assert compared.difference.low < 0.5
        assert (compared.p_value < 0.001) == (rows == 100)

    @pytest.mark.parametrize("rows", [30, 100, 500])
    @pytest.mark.parametrize(
        ("one", "two", "together"), [(3.5, -3.5, 0.0), (3.5, -3.5, -0.8), (5.0, 4.5, 0.5), (4.37, 2.93, 0.98)]
    )
    def test_intervals_cover_near_the_ends(self, rows, one, two, together):
        """Shifted normals: the truth is Phi(one / sqrt 2) - Phi(two / sqrt 2), up to .987 and down to .001."""
        truth = stats.norm.cdf(one / math.sqrt(2)) - stats.norm.cdf(two / math.sqrt(2))
        generator = np.random.default_rng(rows)
        mixed = np.linalg.cholesky([[1, together], [together, 1]]).T
        covered = 0
        for _ in range(300):
            low, high = (generator.normal(size=(rows, 2)) @ mixed + shift for shift in ([0, 0], [one, two]))
            covered += auroc_difference(low[:, 0], high[:, 0], low[:, 1], high[:, 1]).difference.contains(truth)
        assert covered / 300 >= 0.93

    def test_two_different_perfect_scores_may_differ(self):
        low, high = np.arange(40.0), np.arange(100.0, 140.0)
        difference = auroc_difference(low, high, low[::-1], high[::-1]).difference
        assert difference.value == 0.0
        assert difference.low == -difference.high < -0.01

    @pytest.mark.parametrize("rows", [50, 200])
    def test_intervals_for_many_comparisons_cover_them_all(self, rows):
        shifts = np.linspace(0.5, 3.0, 16)
        truth = stats.norm.cdf(shifts / math.sqrt(2)) - stats.norm.cdf(1 / math.sqrt(2))
        generator = np.random.default_rng(rows)
        covered = 0
        for _ in range(150):
            # Scores of one input go together: they share half of their variance.
            low, high = (
                (generator.normal(size=(rows, 1)) + generator.normal(size=(rows, 17))) / math.sqrt(2) + shift
                for shift in (0.0, np.append(shifts, 1.0))
            )
            covered += all(
                auroc_difference(low[:, k], high[:, k], low[:, 16], high[:, 16], comparisons=16).difference.contains(
                    truth[k]
                )
                for k in range(16)
            )
        assert covered / 150 >= 0.93

    def test_scores_of_other_inputs_are_refused(self):
        with pytest.raises(SoftscopeError, match="unfamiliar: 2 rows of score a, 3 of score b"):
            auroc_difference([1.0], [1.0, 2.0], [1.0], [1.0, 2.0, 3.0])


class TestAveragePrecision:
    @pytest.mark.parametrize("decimals", [0, 1, 15])
    @pytest.mark.parametrize(("positive", "sign"), [("unfamiliar", 1), ("familiar", -1)])
    def test_agrees_with_scikit_learn_on_either_side(self, path, decimals, positive, sign):
        familiar, unfamiliar = draw(700, 400, decimals=decimals)
        truth = np.repeat([0, 1] if positive == "unfamiliar" else [1, 0], [700, 400])
        expected = sk.average_precision_score(truth, sign * np.concatenate([familiar, unfamiliar]))
        assert average_precision(familiar, unfamiliar, positive).value == pytest.approx(expected, abs=1e-13)

    def test_by_hand(self):
        # Descending: 4 U, 3 F, 2 U and F tied, 1 U. Precisions at the U: 1, 2/4, 3/5.
        assert average_precision([3.0, 2.0], [4.0, 2.0, 1.0]).value == pytest.approx((1 + 1 / 2 + 3 / 5) / 3)

    @given(FEW_VALUES, FEW_VALUES)
    def test_a_perfect_order_gets_one_and_any_interval_stays_within_bounds(self, familiar, unfamiliar):
        assert average_precision(np.arctan(familiar) - 10, unfamiliar).value == 1.0
        precision = average_precision(familiar, unfamiliar)
        assert 0 <= precision.low <= precision.value <= precision.high <= 1

    @pytest.mark.parametrize(("shape", "scale"), [((200, 200), 1.0), ((1000, 60), 2.0), ((60, 1000), 0.5)])
    def test_the_interval_agrees_with_the_bootstrap(self, shape, scale):
        familiar, unfamiliar = draw(*shape)
        unfamiliar = unfamiliar * scale
        generator = np.random.default_rng(1)
        resampled = [
            average_precision(generator.choice(familiar, shape[0]), generator.choice(unfamiliar, shape[1])).value
            for _ in range(1000)
        ]
        precision = average_precision(familiar, unfamiliar)
        assert precision.high - precision.low == pytest.approx(3.92 * np.std(resampled), rel=0.15)


class TestFprAtRecall:
    @staticmethod
    def by_definition(familiar, unfamiliar, recall, positive):
        """Try every threshold; of those with enough recall the least share of false positives."""
        sign = 1 if positive == "unfamiliar" else -1
        wanted, others = (unfamiliar, familiar) if sign == 1 else (familiar, unfamiliar)
        wanted, others = sign * np.asarray(wanted), sign * np.asarray(others)
        needed = Fraction(str(recall))
        reached = [t for t in wanted if Fraction(int((wanted >= t).sum()), wanted.size) >= needed]
        return min(float((others >= t).sum() / others.size) for t in reached)

    @given(
        SCORES,
        SCORES,
        st.sampled_from([0.01, 0.07, 0.5, 0.95, 0.999, 1.0]),
        st.sampled_from(["unfamiliar", "familiar"]),
    )
    def test_equals_the_definition_over_all_thresholds(self, familiar, unfamiliar, recall, positive):
        rate = fpr_at_recall(familiar, unfamiliar, recall, positive)
        assert rate.value == pytest.approx(self.by_definition(familiar, unfamiliar, recall, positive), abs=1e-15)
        assert 0 <= rate.low <= rate.value <= rate.high <= 1

    @pytest.mark.parametrize("decimals", [0, 15])
    def test_agrees_with_scikit_learns_roc_curve(self, path, decimals):
        familiar, unfamiliar = draw(700, 400, decimals=decimals)
        truth = np.repeat([0, 1], [700, 400])
        false, true, _ = sk.roc_curve(truth, np.concatenate([familiar, unfamiliar]), drop_intermediate=False)
        assert fpr_at_recall(familiar, unfamiliar, 0.95).value == pytest.approx(false[true >= 0.95][0], abs=1e-15)

    @pytest.mark.parametrize(
        ("recall", "rows", "rank"), [(0.07, 100, 7), (0.29, 100, 29), (0.95, 20, 19), (0.951, 20, 20)]
    )
    def test_recall_is_the_decimal_that_is_printed(self, recall, rows, rank):
        # Each further rank flags one more of as many familiar scores, so the rate counts the rank.
        unfamiliar = np.arange(rows, dtype=float)
        assert fpr_at_recall(unfamiliar, unfamiliar, recall).value == pytest.approx(rank / rows)

    def test_by_hand_on_either_side(self):
        familiar, unfamiliar = [1.0, 2.0, 2.0, 6.0], [2.0, 5.0, 7.0, 8.0]
        assert fpr_at_recall(familiar, unfamiliar, 0.75).value == 1 / 4  # U >= 5 flags one familiar row
        assert fpr_at_recall(familiar, unfamiliar, 1.0).value == 3 / 4  # U >= 2 flags three
        assert fpr_at_recall(familiar, unfamiliar, 0.5, "familiar").value == 1 / 4  # U <= 2: its tie comes along

    @pytest.mark.parametrize("rows", [50, 400])
    def test_its_interval_covers_the_truth_although_the_threshold_is_drawn_too(self, rows):
        generator = np.random.default_rng(3)
        truth = stats.norm.sf(stats.norm.ppf(0.05) + 2.0)
        hits = [
            fpr_at_recall(generator.normal(size=rows), generator.normal(2.0, 1, rows)).contains(truth)
            for _ in range(400)
        ]
        assert np.mean(hits) > 0.93

    @pytest.mark.parametrize("recall", [0, -0.1, 1.01, math.nan])
    def test_a_recall_outside_zero_to_one_is_refused(self, recall):
        with pytest.raises(SoftscopeError, match="recall"):
            fpr_at_recall([1.0], [2.0], recall)

    @pytest.mark.parametrize("metric", [fpr_at_recall, average_precision])
    def test_an_unknown_positive_side_is_refused(self, metric):
        with pytest.raises(SoftscopeError, match="'unfamiliar' or 'familiar', found 'ood'"):
            metric([1.0], [2.0], positive="ood")


class TestRocCurve:
    @given(FEW_VALUES, FEW_VALUES)
    def test_with_few_values_its_area_is_the_auroc(self, familiar, unfamiliar):
        curve = roc_curve(familiar, unfamiliar)
        area = np.trapezoid(curve.recall, curve.false_positive_rate)
        assert area == pytest.approx(auroc(familiar, unfamiliar).value, abs=1e-12)

    def test_many_scores_give_few_points_that_lie_on_the_curve(self):
        familiar, unfamiliar = draw(20_000, 30_000)
        curve = roc_curve(familiar, unfamiliar, points=100)
        assert curve.thresholds.size <= 102
        for threshold, false, true in zip(curve.thresholds, curve.false_positive_rate, curve.recall):
            assert false == pytest.approx((familiar >= threshold).mean(), abs=1e-12)
            assert true == pytest.approx((unfamiliar >= threshold).mean(), abs=1e-12)
        area = np.trapezoid(curve.recall, curve.false_positive_rate)
        assert area == pytest.approx(auroc(familiar, unfamiliar).value, abs=1e-3)

    def test_it_runs_from_zero_to_one_and_never_falls(self):
        curve = roc_curve(*draw(100, 50))
        for share in (curve.false_positive_rate, curve.recall):
            assert (share[0], share[-1]) == (0.0, 1.0)
            assert (np.diff(share) >= 0).all()
        assert (np.diff(curve.thresholds) <= 0).all()

    def test_a_curve_of_one_point_is_refused(self):
        with pytest.raises(SoftscopeError, match="at least 2"):
            roc_curve([1.0], [2.0], points=1)


@pytest.mark.parametrize("metric", [auroc, average_precision, fpr_at_recall, roc_curve])
@pytest.mark.parametrize(
    ("familiar", "message"),
    [
        ([], "at least one, found shape"),
        ([[1.0, 2.0]], r"one score per row, at least one, found shape \(1, 2\)"),
        ([0.0, 1.0, np.nan, np.nan], "familiar: row 2 is NaN, the first of 2"),
        (["a"], "expected real scores"),
        ([1.0, None], "expected real scores, found object"),
        ([1 + 2j], "expected real scores"),
        ([[1.0], [1.0, 2.0]], "not an array of numbers"),
        (np.array([1.0], np.longdouble), "expected real scores"),
        (np.array([2**60, 2**60 + 1]), "beyond 2\\^53"),
    ],
)
def test_bad_scores_are_named(metric, familiar, message):
    with pytest.raises(SoftscopeError, match=message):
        metric(familiar, [1.0])
