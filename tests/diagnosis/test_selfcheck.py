"""Each thing the self-check looks for, made on purpose; and nothing found where nothing is wrong."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from softscope.diagnosis.selfcheck import check_inputs, self_check
from softscope.diagnosis.sets import observe, row_hashes
from softscope.diagnosis.structure import nearest_means
from softscope.errors import SoftscopeError
from softscope.features import FeatureSet
from softscope.geometry import optimal_structure
from softscope.head import Head

HEAD = Head(optimal_structure(4, 8, norm=4.0).weight.astype(np.float32), None, ["cat", "dog", "hen", "owl"])


def _features(rows: int, seed: int, spread: float = 0.3, name: str = "features", metadata=None) -> FeatureSet:
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % 4
    z = HEAD.weight[labels] / 4 + spread * rng.standard_normal((rows, 8))
    return FeatureSet(z.astype(np.float32), labels, name=name, metadata=metadata)


TRAIN, TEST = _features(400, 1, name="train"), _features(200, 2, name="test")
OOD = FeatureSet(np.random.default_rng(3).standard_normal((200, 8)).astype(np.float32), name="noise")


def _checked(head: Head = HEAD, train: FeatureSet = TRAIN, test: FeatureSet = TEST, ood: FeatureSet = OOD):
    check_inputs(head, train, test, {"noise": ood})
    seen = observe(head, train, labelled=True, moments=True)
    others = {"noise": observe(head, ood, labelled=False)}
    moments = seen.moments
    tested = observe(head, test, labelled=True)
    return self_check(head, seen, tested, others, moments, nearest_means(train, moments))


def _words(findings) -> str:
    return " | ".join(f"{finding.level}: {finding.what}. {finding.hint}" for finding in findings)


def test_sound_input_gives_no_findings() -> None:
    assert _checked() == ()


def test_probabilities_instead_of_features_are_noticed() -> None:
    rng = np.random.default_rng(0)
    head = Head(4 * np.eye(4))
    labels = np.arange(200) % 4
    probabilities = rng.dirichlet(np.ones(4), 200)
    probabilities[np.arange(200), labels] += 2
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    features = FeatureSet(probabilities, labels, name="train")
    findings = _checked(
        head, features, FeatureSet(probabilities[::-1] * 0.999, labels[::-1]), FeatureSet(rng.random((50, 4)))
    )
    assert "warning: train: every row is non-negative and sums to 1, as probabilities do" in _words(findings)


def test_logits_instead_of_features_are_noticed() -> None:
    head = Head(np.eye(4))
    train, test = (
        FeatureSet(HEAD.logits(findings.array()), findings.labels, name=findings.name) for findings in (TRAIN, TEST)
    )
    findings = _checked(head, train, test, FeatureSet(HEAD.logits(OOD.array())))
    assert "as many columns as classes" in _words(findings)
    assert "logits" in findings[0].what
    assert findings[0].level == "warning"


def test_features_of_another_layer_are_noticed() -> None:
    turned = FeatureSet(TRAIN.array()[:, ::-1].copy(), TRAIN.labels, name="train")
    findings = _checked(train=turned)
    assert findings[0].level == "warning"
    assert "the head is right for" in findings[0].what
    assert "the layer that feeds the head" in findings[0].hint


def test_a_head_that_does_worse_than_the_nearest_class_mean_is_noticed() -> None:
    """The head is right often enough to look plausible, but far less often than the class means are."""
    bias = np.array([5.2, 0, 0, 0])
    findings = _checked(Head(HEAD.weight, bias, HEAD.classes), _features(400, 1, 0.1), _features(200, 2, 0.1))
    assert any("the nearest class mean for" in finding.what for finding in findings)


@pytest.mark.parametrize(("right", "noticed"), [(56, True), (64, False)])
def test_a_head_hardly_better_than_guessing_is_noticed(right, noticed) -> None:
    """Guessing is right for 50 of 200 rows: below 1.2 times that the head does not belong to the features."""
    head, labels = Head(np.eye(4)), np.arange(200) % 4
    predicted = np.where(np.arange(200) < right, labels, (labels + 1 + np.arange(200) // 4 % 3) % 4)
    z = np.eye(4)[predicted] + 0.01 * np.random.default_rng(0).standard_normal((200, 4))
    assert (head.logits(z).argmax(axis=1) == labels).sum() == right
    words = _words(_checked(head, FeatureSet(z, labels, name="train"), FeatureSet(z + 1e-6, labels), FeatureSet(z - 1)))
    assert (f"the head is right for {right / 200:.1%} of rows, guessing for 25.0%" in words) == noticed


def test_labels_numbered_differently_are_noticed() -> None:
    shifted = FeatureSet(TRAIN.array(), (TRAIN.labels + 1) % 4, name="train")
    findings = _checked(train=shifted)
    assert "if classes are renumbered" in findings[0].what
    assert "Number the labels" in findings[0].hint


def test_an_accuracy_that_the_file_states_is_checked() -> None:
    right = float((HEAD.logits(TRAIN.array()).argmax(1) == TRAIN.labels).mean())
    said = _features(400, 1, metadata={"accuracy": f"{right:.4f}"})
    assert _checked(train=said) == ()
    said = _features(400, 1, metadata={"accuracy": "0.5"})
    assert "states an accuracy of 50.0%" in _words(_checked(train=said))
    assert _checked(train=_features(400, 1, metadata={"accuracy": "good"})) == ()


def test_features_that_say_they_are_of_before_the_non_linearity_are_noticed() -> None:
    assert "before the last non-linearity" in _words(_checked(train=_features(400, 1, metadata={"layer": "before"})))
    assert _checked(train=_features(400, 1, metadata={"layer": "after"})) == ()


def test_features_of_before_a_relu_are_noticed_without_metadata() -> None:
    """A head trained on max(z, 0), given z; a head trained on signed features loses by cutting and is left alone."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 800)
    means = rng.normal(0, 1, (4, 12))
    before = means[labels] + rng.normal(0, 1.5, (800, 12)) - 1.0
    before *= np.where(before < 0, 3.0, 1.0)  # what a ReLU hides was never held in bounds by training
    model = LogisticRegression(max_iter=500).fit(np.maximum(before, 0), labels)
    head = Head(model.coef_, model.intercept_)
    train, test = (FeatureSet(before[part], labels[part]) for part in (slice(0, 500), slice(500, 800)))
    ood = FeatureSet(rng.normal(0, 3, (100, 12)))
    assert "taken before the last non-linearity" in _words(_checked(head, train, test, ood))
    after = [FeatureSet(np.maximum(one.array(), 0), one.labels) for one in (train, test)]
    assert "non-linearity" not in _words(_checked(head, *after, ood))
    signed = LogisticRegression(max_iter=500).fit(before, labels)
    assert "non-linearity" not in _words(_checked(Head(signed.coef_, signed.intercept_), train, test, ood))


def test_a_test_set_that_the_head_fails_on_is_noticed() -> None:
    wrong = FeatureSet(TEST.array(), (TEST.labels + 1) % 4, name="test")
    assert "of training rows and" in _words(_checked(test=wrong))


def test_test_features_of_another_scale_are_noticed() -> None:
    scaled = FeatureSet(2 * TEST.array(), TEST.labels, name="test")
    assert "the median norm of test features" in _words(_checked(test=scaled))


@pytest.mark.parametrize("how", ["same", "shuffled", "subset", "float64"])
def test_an_ood_set_that_is_the_test_set_is_an_error(how) -> None:
    z = TEST.array()
    same = {"same": z, "shuffled": z[::-1], "subset": z[:20], "float64": z.astype(np.float64)}[how]
    with pytest.raises(SoftscopeError, match="OOD set noise: every row is a row of the test set"):
        _checked(ood=FeatureSet(same))


def test_an_ood_set_that_is_the_training_set_is_an_error() -> None:
    with pytest.raises(SoftscopeError, match="every row is a row of the training set"):
        _checked(ood=FeatureSet(TRAIN.array()))


def test_an_ood_set_of_zeros_is_not_taken_for_the_test_set() -> None:
    z = TEST.array().copy()
    z[0] = 0
    findings = _checked(test=FeatureSet(z, TEST.labels), ood=FeatureSet(np.zeros((150, 8), np.float32)))
    assert "150 of 150 rows (100.0%) are also in the test set" in _words(findings)
    assert "149 of 150 rows (99.3%) are repeats of others" in _words(findings)


def test_rows_shared_by_test_and_ood_are_counted() -> None:
    z = OOD.array().copy()
    z[:7] = TEST.array()[50:57]
    findings = _checked(ood=FeatureSet(z))
    assert findings[0].level == "warning"
    assert findings[0].what == "OOD set noise: 7 of 200 rows (3.5%) are also in the test set"


def test_test_rows_seen_in_training_are_counted() -> None:
    z = TEST.array().copy()
    z[10] = TRAIN.array()[10]
    findings = _checked(test=FeatureSet(z, TEST.labels))
    assert [finding.level for finding in findings] == ["note"]
    assert "test: 1 of 200 rows (0.5%) is also in the training set" in findings[0].what


def test_confidences_that_tie_at_one_are_noticed() -> None:
    strong = Head(20 * HEAD.weight)
    assert "float32 prints 1 for all of them" in _words(_checked(strong))


def test_ties_are_counted_exactly_where_float32_rounds_to_one() -> None:
    from softscope.estimators.softmax import plain_max

    gaps = np.linspace(15, 18, 400)
    z = np.stack([gaps, np.zeros(400)], axis=1).astype(np.float32)
    head = Head(np.eye(2, dtype=np.float32))
    seen = observe(head, FeatureSet(z), labelled=False)
    limit = np.log(np.finfo(np.float32).epsneg)
    assert np.array_equal(seen.odds <= limit, plain_max(head.logits(z)) == -1)


def test_rank_deficiency_and_dead_units_are_noted() -> None:
    def padded(features: FeatureSet) -> FeatureSet:
        z = features.array()
        return FeatureSet(np.hstack([z, z[:, :1], np.zeros((len(z), 2), np.float32)]), features.labels, name="wide")

    head = Head(np.hstack([HEAD.weight, np.zeros((4, 3), np.float32)]))
    findings = _checked(head, padded(TRAIN), padded(TEST), padded(OOD))
    assert [finding.level for finding in findings] == ["note"]
    assert findings[0].what == "wide: features span 8 of 11 directions, 2 units never change"


def test_classes_without_rows_or_with_few_are_named() -> None:
    kept = (TRAIN.labels != 3) & ((TRAIN.labels != 2) | (np.arange(400) < 20))
    words = _words(_checked(train=TRAIN.take(kept)))
    assert "warning: class owl: no training rows" in words
    assert "warning: class hen: fewer than 10 training rows" in words


def test_a_class_missing_from_test_is_noted() -> None:
    findings = _checked(test=TEST.take(TEST.labels != 0))
    assert [finding.what for finding in findings] == ["class cat: not in the test labels"]


def test_classes_with_no_more_rows_than_features_are_noted() -> None:
    wide = np.random.default_rng(5).standard_normal((8, 60)).astype(np.float32) / 60
    head = Head(HEAD.weight @ wide)
    train, test, ood = (
        FeatureSet((own.array() @ np.linalg.pinv(wide).T), own.labels, name="wide")
        for own in (_features(160, 1), TEST, OOD)
    )
    assert "4 of 4 classes have no more training rows than features" in _words(_checked(head, train, test, ood))


def test_small_sets_are_noted() -> None:
    assert "note: noise: 30 rows" in _words(_checked(ood=OOD.take(slice(0, 30))))


def test_equal_rows_hash_alike_whatever_their_precision_and_sign_of_zero() -> None:
    rows = np.array([[0.0, 1.5], [-0.0, 1.5], [0.0, 1.25]], np.float32)
    hashes = row_hashes(rows)
    assert hashes[0] == hashes[1] != hashes[2]
    assert np.array_equal(hashes, row_hashes(rows.astype(np.float64)))
    assert len(np.unique(row_hashes(np.random.default_rng(0).standard_normal((20_000, 3))))) == 20_000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ood": {"test": OOD}}, "can't be called 'test'"),
        ({"ood": {" ": OOD}}, "can't be called"),
        ({"ood": {"one": OOD.take([0])}}, "noise: has 1 row"),
        ({"test": TEST.take([0])}, "test: has 1 row"),
        ({"train": FeatureSet(TRAIN.array(), name="train")}, "train: the training features have no labels"),
        ({"train": TRAIN.take(TRAIN.labels == 1)}, "all labels are 1, a diagnosis needs at least 2 classes"),
        ({"test": FeatureSet(TEST.array(), TEST.labels + 3, name="test")}, "test: labels: row 1 has label 4"),
        ({"ood": {"narrow": FeatureSet(np.ones((5, 3)), name="narrow")}}, "narrow: has 3 columns"),
    ],
)
def test_what_cannot_be_diagnosed_is_an_error(change, said) -> None:
    given = {"train": TRAIN, "test": TEST, "ood": {"noise": OOD}} | change
    with pytest.raises(SoftscopeError, match=said):
        check_inputs(HEAD, **given)
