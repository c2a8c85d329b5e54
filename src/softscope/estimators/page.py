"""The page of docs that lists every estimator, made from each one's `info`: `python -m softscope.estimators.page`."""

import tomllib
from importlib.resources import files
from inspect import getdoc, signature

from . import ESTIMATORS, Estimator, estimator_class

_TEXTS = tomllib.loads(files(__package__).joinpath("page.toml").read_text("utf-8"))


def page() -> str:
    classes = [estimator_class(name) for name in ESTIMATORS]
    return str(_TEXTS["opening"]) + "".join(map(_row, classes)) + "".join(map(_section, classes))


def _row(cls: type[Estimator]) -> str:
    info, arxiv = cls.info, _TEXTS["arxiv"]
    source = f"[{info.source}](https://arxiv.org/abs/{arxiv[info.source]})" if info.source in arxiv else info.source
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
