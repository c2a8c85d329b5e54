"""The page of docs that lists every estimator, made from each one's `info`: `python -m softscope.estimators.page`."""

from inspect import getdoc, signature

from . import ESTIMATORS, Estimator, estimator_class

_OPENING = """\
# Estimators

Every uncertainty that Softscope knows, by the name that `softscope.estimators.estimator(name, **params)` and the
command line take. Larger always means more uncertain. `uncertainty(z)` is a float64 score whose order can't saturate;
`plain(z)` is the value as defined, in float32, ties and all. E1-E8 are the paper's; B and R are what the literature
would use beside or instead, each by its authors' definition; hyper-parameters are the authors' or read off training
data, never chosen on OOD data. CORE (Yang, Kim, Bahk 2026) is missing: its exact formula could not be established from
public material.

This page is written by `python -m softscope.estimators.page > docs/estimators.md`; a test compares the two.

| name | id | symbol | value as defined | needs | source |
|---|---|---|---|---|---|
"""

_ARXIV = {
    "Pearce, Brintrup, Zhu 2021": "2106.04972",
    "Lee et al. 2018": "1807.03888",
    "Liu et al. 2020": "2010.03759",
    "Ren et al. 2021": "2106.09022",
    "Huang, Geng, Li 2021": "2110.00218",
    "Sun et al. 2021": "2111.12797",
    "Hendrycks et al. 2022": "1911.11132",
    "Sun et al. 2022": "2204.06507",
    "Wang et al. 2022": "2203.10807",
    "Djurisic et al. 2023": "2209.09858",
    "Park, Jung, Teoh 2023": "2309.14888",
    "Liu, Qin 2024": "2312.11536",
    "Xu et al. 2024": "2310.00227",
    "Liu, Qin 2025": "2311.01479",
    "Mueller, Hein 2025": "2505.18032",
}


def page() -> str:
    """The whole page as markdown."""
    classes = [estimator_class(name) for name in ESTIMATORS]
    return _OPENING + "".join(map(_row, classes)) + "".join(map(_section, classes))


def _row(cls: type[Estimator]) -> str:
    info = cls.info
    source = f"[{info.source}](https://arxiv.org/abs/{_ARXIV[info.source]})" if info.source in _ARXIV else info.source
    name = f"[`{info.name}`](#{cls.__name__.lower()})"
    cells = (name, info.id, info.symbol, f"`{info.formula}`", ", ".join(info.needs), source)
    return f"| {' | '.join(cells)} |\n"


def _section(cls: type[Estimator]) -> str:
    parameters = ", ".join(f"{name}={value.default!r}" for name, value in signature(cls).parameters.items())
    assumes = f"\nAssumes {cls.info.assumes}.\n" if cls.info.assumes else ""
    words = (getdoc(cls) or "").partition("\n\n>>>")[0]
    return f"\n## {cls.__name__}\n\n`{cls.__name__}({parameters})`\n\n{words}\n{assumes}"


if __name__ == "__main__":
    print(page(), end="")
