"""The tree goes to JSON and back unchanged, and nothing else is taken for one."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softscope.canonical import decode
from softscope.diagnosis import Diagnosis
from softscope.diagnosis.model import OUTCOMES, Ceiling, Finding, Histogram, InputRow, Sentence, ThresholdTable
from softscope.errors import SoftscopeError
from softscope.metrics import Interval

from .example import example

numbers = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(max_size=12)
intervals = st.lists(numbers, min_size=3, max_size=3).map(sorted).map(lambda xs: Interval(xs[1], xs[0], xs[2]))


def test_a_real_diagnosis_survives_json_unchanged() -> None:
    diagnosis = example()
    assert Diagnosis.from_json(diagnosis.to_json()) == diagnosis
    assert (
        json.loads(diagnosis.to_json())["causes"]["weak"]["overlap"]["value"] == diagnosis.causes["weak"].overlap.value
    )


def test_a_diagnosis_survives_a_file_unchanged(tmp_path) -> None:
    path = tmp_path / "diagnosis.json"
    example().save(path)
    assert Diagnosis.load(path) == example()
    assert [file.name for file in tmp_path.iterdir()] == ["diagnosis.json"]


@given(
    st.one_of(
        st.builds(
            Ceiling, intervals, texts, st.dictionaries(texts, numbers), st.integers(), st.integers(), st.booleans()
        ),
        st.builds(Histogram, st.lists(numbers).map(tuple), st.dictionaries(texts, st.lists(st.integers()).map(tuple))),
        st.builds(
            InputRow,
            st.integers(),
            st.integers(),
            st.none() | st.integers(),
            numbers,
            st.sampled_from(sorted(OUTCOMES)),
            st.dictionaries(texts, numbers),
        ),
        st.builds(
            ThresholdTable,
            st.lists(numbers).map(tuple),
            st.lists(numbers).map(tuple),
            st.dictionaries(texts, st.lists(numbers).map(tuple)),
        ),
        st.builds(Finding, st.sampled_from(["warning", "note"]), texts, texts),
        st.builds(Sentence, texts, texts, st.none() | texts),
    )
)
def test_any_part_of_the_tree_survives_json_unchanged(part) -> None:
    from softscope.canonical import plain

    again = decode(type(part), json.loads(json.dumps(plain(part), allow_nan=False)), "part")
    assert again == part
    assert json.dumps(plain(again)) == json.dumps(plain(part))


def test_nan_is_refused_when_written() -> None:
    broken = replace(example(), settings={"seed": float("nan")})
    with pytest.raises(SoftscopeError, match=r"diagnosis\.settings\.seed: is nan"):
        broken.to_json()


def _changed(change) -> str:
    tree = json.loads(example().to_json())
    change(tree)
    return json.dumps(tree)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tree: tree.update(format="softscope.diagnosis/99"), "expected format"),
        (lambda tree: tree.pop("causes"), "causes"),
        (lambda tree: tree.update(extra=1), "extra"),
        (lambda tree: tree["train"].update(rows="many"), "train.rows"),
        (lambda tree: tree["train"].update(rows=True), "train.rows"),
        (lambda tree: tree["advice"].update(verdict="maybe"), "advice.verdict"),
        (lambda tree: tree["strength"].update(edges=None), "strength.edges"),
        (lambda tree: tree["causes"].update(weak=[1, 2]), "causes.weak"),
        (lambda tree: tree["causes"]["weak"]["overlap"].update(low=2.0), "low <= value <= high"),
    ],
)
def test_what_does_not_fit_is_named(change, said) -> None:
    with pytest.raises(SoftscopeError, match=said.replace(".", r"\.")):
        Diagnosis.from_json(_changed(change))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}', "[" * 100_000])
def test_text_that_is_no_diagnosis_is_refused(text) -> None:
    with pytest.raises(SoftscopeError):
        Diagnosis.from_json(text)


def test_a_truncated_file_is_refused_by_name(tmp_path) -> None:
    path = tmp_path / "half.json"
    path.write_text(example().to_json()[:5000])
    with pytest.raises(SoftscopeError, match=r"half\.json"):
        Diagnosis.load(path)


def test_every_field_says_what_it_holds() -> None:
    diagnosis = example()
    names = {field.name for field in fields(diagnosis)}
    assert {"causes", "mean_causes", "scores", "ceilings", "inputs", "self_check", "advice", "provenance"} <= names
    assert isinstance(diagnosis.causes["far"].overlap, Interval)
    assert np.isfinite(diagnosis.causes["far"].overlap.high)


def test_tables_for_pandas_hold_every_score_cause_and_input(monkeypatch) -> None:
    """Without pandas at hand: what would be handed to DataFrame."""
    import sys
    from types import SimpleNamespace

    diagnosis = example()
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    scores = diagnosis.to_frame()
    assert len(scores) == sum(len(own) for own in diagnosis.scores.values())
    first = scores[0]
    assert first["auroc"] == diagnosis.scores[first["ood"]][first["estimator"]].auroc.value
    parts = {(row["ood"], row["part"]): row["value"] for row in diagnosis.to_frame("causes")}
    assert parts["far", "overlap"] == diagnosis.causes["far"].overlap.value
    inputs = diagnosis.to_frame("inputs")
    assert len(inputs) == sum(summary.rows for summary in diagnosis.ood.values())
    with pytest.raises(SoftscopeError, match="unknown table"):
        diagnosis.to_frame("pictures")


def test_an_older_file_without_later_fields_still_loads() -> None:
    tree = example().to_dict()
    for name in ("reliability", "risk", "by_class"):
        del tree[name]
    del tree["advice"]["choices"]
    older = Diagnosis.from_dict(tree)
    assert older.reliability is None
    assert older.advice.choices == ()
    del tree["advice"]["verdict"]
    with pytest.raises(SoftscopeError, match="verdict"):
        Diagnosis.from_dict(tree)
