"""`diagnose` as a whole: the same twice, with and without labels, from files, and refused where it must be."""

from dataclasses import replace

import numpy as np
import pytest

import softscope as sx
from softscope.diagnosis import diagnose
from softscope.errors import SoftscopeError
from softscope.estimators import estimator
from softscope.features import FeatureSet
from softscope.files import sha256
from softscope.head import Head

from .example import class_features, example, example_head, ood_features

QUICK = {"bootstraps": 20, "estimators": ("max",)}
HEAD, TRAIN, TEST = example_head(), class_features(300, 1, name="train"), class_features(150, 2, name="test")
OOD = {"weak": ood_features("weak", 120, 3)}


def test_the_same_arguments_give_the_same_diagnosis() -> None:
    first, again = (diagnose(HEAD, TRAIN, TEST, OOD, bootstraps=50, seed=4) for _ in range(2))
    assert replace(first, provenance={}) == replace(again, provenance={})
    other = diagnose(HEAD, TRAIN, TEST, OOD, seed=5, **QUICK)
    assert other.causes["weak"].ceiling != first.causes["weak"].ceiling


def test_a_diagnosis_can_keep_the_score_of_every_row() -> None:
    from softscope.diagnosis.causes import cause_sizes

    kept = diagnose(HEAD, TRAIN, TEST, OOD, keep_scores=True, **QUICK)
    assert {name: len(own["density"]) for name, own in kept.row_scores.items()} == {"test": 150, "weak": 120}
    expected = estimator("entropy").fit(HEAD).uncertainty(OOD["weak"])
    np.testing.assert_array_equal(kept.row_scores["weak"]["entropy"], expected)
    causes = kept.causes["weak"]
    b, c, d = (causes.entropy.value, causes.cool.value, causes.density.value)
    for name, size in cause_sizes(b, c, d).items():
        assert getattr(causes, name).value == pytest.approx(size)
    without = diagnose(HEAD, TRAIN, TEST, OOD, **QUICK)
    assert replace(without, provenance={}) == replace(kept, provenance={}), "kept scores are no part of the tree"
    with pytest.raises(SoftscopeError, match="kept no scores"):
        _ = without.row_scores


def test_the_public_name_and_the_promised_field() -> None:
    diagnosis = sx.diagnose(HEAD, train=TRAIN, test=TEST, ood=OOD, **QUICK)
    assert isinstance(diagnosis, sx.Diagnosis)
    assert isinstance(diagnosis.causes["weak"].overlap, sx.Interval)
    assert set(diagnosis.scores["weak"]) == {"plain-max", "plain-entropy", "max", "entropy", "cool", "density"}
    assert set(diagnosis.estimators) == set(diagnosis.scores["weak"])
    assert diagnosis.classes == HEAD.classes


def test_every_estimator_is_scored_as_the_registry_scores_it() -> None:
    diagnosis = example()
    test, far = class_features(600, 2), ood_features("far", 600, 11)
    for name in ("max", "margin", "energy", "familiarity", "gen", "mental"):
        item = estimator(name).fit(example_head(), class_features(1200, 1))
        expected = sx.metrics.auroc(item.uncertainty(test), item.uncertainty(far))
        assert diagnosis.scores["far"][name].auroc == expected
    plain = estimator("max").fit(example_head())
    assert diagnosis.scores["far"]["plain-max"].auroc == sx.metrics.auroc(plain.plain(test), plain.plain(far))
    assert diagnosis.scores["far"]["plain-max"].gain.value == 0


def test_gains_are_paired_differences_to_the_printed_confidence() -> None:
    scores = example().scores["weak"]
    for score in scores.values():
        assert score.gain.value == pytest.approx(score.auroc.value - scores["plain-max"].auroc.value, abs=1e-12)


def test_means_are_over_the_ood_sets() -> None:
    diagnosis = example()
    for name, score in diagnosis.mean_scores.items():
        each = [scores[name] for scores in diagnosis.scores.values()]
        assert score.auroc.value == pytest.approx(np.mean([one.auroc.value for one in each]))
        assert score.average_precision.value == pytest.approx(np.mean([one.average_precision.value for one in each]))
        assert 0 <= score.p_value <= 1


def test_test_features_without_labels_are_allowed() -> None:
    diagnosis = diagnose(HEAD, TRAIN, FeatureSet(TEST.array(), name="test"), OOD, **QUICK)
    assert diagnosis.test.accuracy is None
    assert diagnosis.causes["weak"].ambiguity is None
    assert "no labels" in diagnosis.ambiguity_missing
    assert diagnosis.test_mistakes == ()
    assert diagnosis.mistakes == {}


def test_labels_of_an_ood_set_are_its_own() -> None:
    labelled = FeatureSet(OOD["weak"].array(), np.arange(120) + 1000, name="weak")
    diagnosis = diagnose(HEAD, TRAIN, TEST, {"weak": labelled}, **QUICK)
    assert diagnosis.ood["weak"].accuracy is None
    assert {row.label for row in diagnosis.inputs["weak"].examples} <= set(range(1000, 1120))


def test_arrays_are_taken_for_feature_sets_without_labels() -> None:
    train = TRAIN.array(), TRAIN.labels
    diagnosis = diagnose(HEAD, train, TEST.array(), {"weak": OOD["weak"].array()}, **QUICK)
    assert diagnosis.ood["weak"].file is None
    assert diagnosis.train.accuracy is not None
    assert diagnosis.test.accuracy is None


def test_features_from_files_are_named_and_hashed(tmp_path) -> None:
    paths = {name: tmp_path / f"{name}.safetensors" for name in ("train", "test", "weak")}
    for name, features in {"train": TRAIN, "test": TEST, **OOD}.items():
        features.save(paths[name])
    opened = {name: FeatureSet.open(path) for name, path in paths.items()}
    diagnosis = diagnose(HEAD, opened["train"], opened["test"], {"weak": opened["weak"]}, **QUICK)
    assert diagnosis.train.file == str(paths["train"])
    assert diagnosis.ood["weak"].sha256 == sha256(paths["weak"])
    memory = diagnose(HEAD, TRAIN, TEST, OOD, **QUICK)
    assert memory.scores == diagnosis.scores
    assert memory.causes == diagnosis.causes


def test_files_too_large_to_keep_are_streamed_with_the_same_result(tmp_path, monkeypatch) -> None:
    paths = {name: tmp_path / f"{name}.safetensors" for name in ("train", "test", "weak")}
    for name, features in {"train": TRAIN, "test": TEST, **OOD}.items():
        features.save(paths[name])
    opened = {name: FeatureSet.open(path) for name, path in paths.items()}
    whole = diagnose(HEAD, opened["train"], opened["test"], {"weak": opened["weak"]}, **QUICK)
    monkeypatch.setattr("softscope.diagnosis.sets._AT_HAND_BYTES", 0)
    streamed = diagnose(HEAD, opened["train"], opened["test"], {"weak": opened["weak"]}, **QUICK)
    assert replace(streamed, provenance={}) == replace(whole, provenance={})


def test_a_name_that_no_file_system_takes_is_a_set_from_memory() -> None:
    diagnosis = diagnose(HEAD, TRAIN, TEST, {"odd": FeatureSet(OOD["weak"].array(), name="a\0b")}, **QUICK)
    assert diagnosis.ood["odd"].file is None


@pytest.mark.parametrize("rows", [2, 5])
def test_a_handful_of_ood_rows_gives_wide_intervals(rows) -> None:
    diagnosis = diagnose(HEAD, TRAIN, TEST, {"weak": OOD["weak"].take(slice(0, rows))}, **QUICK)
    auroc = diagnosis.scores["weak"]["max"].auroc
    assert auroc.high - auroc.low > 0.2
    assert any("rows" in finding.what for finding in diagnosis.self_check)


def test_two_classes_and_a_single_feature_are_enough() -> None:
    rng = np.random.default_rng(0)
    head = Head([[1.0], [-1.0]])
    labels = np.arange(200) % 2
    z = (1 - 2 * labels[:, None]) * 2.0 + 0.5 * rng.standard_normal((200, 1))
    diagnosis = diagnose(
        head,
        FeatureSet(z[:100], labels[:100]),
        FeatureSet(z[100:], labels[100:]),
        {"zero": FeatureSet(0.1 * rng.standard_normal((60, 1)))},
        bootstraps=20,
    )
    assert diagnosis.scores["zero"]["max"].auroc.value > 0.95


def test_progress_names_each_step_and_ends_with_all_of_them() -> None:
    told: list[tuple[str, int, int]] = []
    diagnose(HEAD, TRAIN, TEST, OOD, progress=lambda *step: told.append(step), **QUICK)
    whats, counts, totals = zip(*told)
    assert list(counts) == sorted(counts)
    assert counts[0] == 0
    assert {counts[-1]} == set(totals)
    assert whats[:2] == ("reading train", "reading test")
    assert whats[-1] == "done"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ood": {"same": TEST}}, "every row is a row of the test set"),
        ({"ood": {"one": OOD["weak"].take([0])}}, "has 1 row"),
        ({"train": TRAIN.take(TRAIN.labels == 0)}, "at least 2 classes"),
        ({"bootstraps": 1}, "bootstraps 1"),
        ({"seed": -1}, "seed -1"),
        ({"estimators": ("crystal ball",)}, "no estimator is called 'crystal ball'"),
        ({"ood": {"nan": FeatureSet(np.full((9, 16), np.nan), name="nan")}}, "nan: z: row 0 holds nan"),
    ],
)
def test_bad_input_is_one_clear_error(change, said) -> None:
    given = {"train": TRAIN, "test": TEST, "ood": OOD} | QUICK | change
    with pytest.raises(SoftscopeError, match=said):
        diagnose(HEAD, **given)


def test_an_instance_takes_the_place_of_its_default() -> None:
    density = estimator("density", covariance="diagonal")
    diagnosis = diagnose(HEAD, TRAIN, TEST, OOD, bootstraps=20, estimators=(density, "norm"))
    assert "diagonal" in diagnosis.settings["estimators"]["density"]
    assert set(diagnosis.settings["estimators"]) == {"max", "entropy", "cool", "density", "norm"}
    assert not hasattr(density, "head_"), "the caller's own is left unfitted"


def test_provenance_holds_what_differs_between_runs() -> None:
    diagnosis = example()
    assert {"command", "date", "seconds", "versions"} <= set(diagnosis.provenance)
    assert diagnosis.settings["bootstraps"] == 100
    assert "date" not in diagnosis.settings


def test_covariances_that_would_fill_the_memory_are_shared_with_a_note(monkeypatch, recwarn) -> None:
    size = HEAD.n_classes * HEAD.n_features**2 * 8
    monkeypatch.setattr("softscope.estimators.density.FULL_BYTES", size - 1)
    shared = diagnose(HEAD, TRAIN, TEST, OOD, **QUICK)
    (note,) = (finding for finding in shared.self_check if finding.what.startswith("density: "))
    assert note.level == "note"
    assert f"{HEAD.n_classes} covariances of {HEAD.n_features} x {HEAD.n_features} need" in note.what
    assert note.hint == 'All components share one covariance instead (covariance="tied")'
    assert not [each for each in recwarn if "covariance" in str(each.message)], "said once, in the diagnosis"
    tied = estimator("density", covariance="tied")
    asked = diagnose(HEAD, TRAIN, TEST, OOD, bootstraps=20, estimators=("max", tied))
    assert shared.scores == asked.scores
