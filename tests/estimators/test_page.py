"""The docs' page of estimators is what the code says."""

from pathlib import Path

from softscope.estimators import ESTIMATORS, estimator_class
from softscope.estimators.page import page

DOCS = Path(__file__).parents[2] / "docs" / "estimators.md"


def test_the_page_in_docs_is_the_one_the_code_writes():
    assert DOCS.read_text() == page(), "write it again: python -m softscope.estimators.page > docs/estimators.md"


def test_every_estimator_has_a_row_and_a_section():
    text = page()
    for name in ESTIMATORS:
        cls = estimator_class(name)
        assert f"| [`{name}`](#{cls.__name__.lower()}) | {cls.info.id} |" in text
        assert f"\n## {cls.__name__}\n" in text
