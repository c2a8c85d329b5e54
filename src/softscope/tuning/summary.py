"""A search as its user sees it: what each rule chose, what to pass to `Density`, a table, plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..arrays import check_columns
from ..engine import Engine
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..runs import Store
from .fitting import Tried
from .options import KernelSetting
from .search import Search, tune
from .spaces import Features, Sets

if TYPE_CHECKING:
    from rich.table import Table

PAPER, LIKELY, AUROC, KERNEL = "the paper's, and the default", "held-out likelihood", "AUROC", "kernel density"


@dataclass(frozen=True)
class SearchSummary:
    """A search in words and as plain values."""

    search: Search

    @property
    def chosen(self) -> dict[str, Tried]:
        """By rule; AUROC only where there are OOD sets."""
        search = self.search
        by_auroc = {AUROC: search.by_auroc} if search.has_ood else {}
        return {PAPER: search.paper, LIKELY: search.by_likelihood, **by_auroc, KERNEL: search.kernel}

    def call(self, one: Tried) -> str:
        """What makes the same estimator: Density(...) or KernelDensity(...)."""
        if isinstance(one.setting, KernelSetting):
            name, given = "KernelDensity", {"bandwidth": one.bandwidth, "transform": one.setting.transform}
            given = {key: value for key, value in given.items() if value != "none"}
        else:
            name, given = "Density", one.setting.arguments(self.search.features, self.search.seed)
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values: what was chosen by each rule, then everything that was tried."""
        search = self.search
        return {
            "classes": search.classes,
            "features": search.features,
            "seed": search.seed,
            "fitted_rows": search.fitted,
            "held_out_rows": search.held_out,
            "zeros": search.zeros,
            "chosen": {rule: {"call": self.call(one), **_plain(one)} for rule, one in self.chosen.items()},
            "tried": [_plain(one) for one in search.tried],
            "kernels": [_plain(one) for one in search.kernels],
        }

    def table(self) -> "Table":
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table("chosen by", "setting", box=SIMPLE_HEAD, pad_edge=False)
        for name in (*self.search.tried[0].auroc, *(["mean AUROC, %"] if self.search.has_ood else [])):
            table.add_column(Text(name), justify="right")
        table.add_column("held-out log-likelihood", justify="right")
        for rule, one in self.chosen.items():
            areas = [*one.auroc.values(), *([one.mean_auroc] if one.auroc else [])]
            likelihood = "" if one.held_out is None else f"{one.held_out:,.1f}"
            table.add_row(rule, words(one), *(f"{area:.1f}" for area in areas), likelihood)
        return table

    def advice(self) -> list[str]:
        """What to pass on, and what the choice costs or gains."""
        search, likely = self.search, self.search.by_likelihood
        lines = [f"Chosen by held-out likelihood, without OOD data: {self.call(likely)}"]
        if search.has_ood:
            best = search.by_auroc
            before = ", on features from before the non-linearity (softscope extract --layer before)"
            lines += [
                f"Chosen by AUROC: {self.call(best)}{before if best.setting.layer == 'before' else ''}",
                "That looks at the OOD sets, as the paper did: it bounds what a choice can reach on these sets, and "
                f"is {best.mean_auroc - likely.mean_auroc:.1f} points of mean AUROC above the choice by likelihood, "
                f"{best.mean_auroc - search.paper.mean_auroc:.1f} above the default.",
                self._elsewhere(),
            ]
        if search.zeros > 0.01:
            lines.append(
                f"{search.zeros:.0%} of the training features are exactly 0. Such features have no density: likelihood "
                "rewards whatever is narrow there, and need not tell familiar from unfamiliar. Trust it less than an "
                "OOD set, or keep the default."
            )
        return lines

    def _elsewhere(self) -> str:
        """What such a choice does to an OOD set that it was not made on."""
        chosen = self.search.left_out
        if not chosen:
            return "There is one OOD set: a choice made on it says little about other kinds of inputs."
        fixed = (dict.fromkeys(chosen, one) for one in (self.search.by_likelihood, self.search.paper))
        elsewhere, likely, default = (
            sum(one.auroc[name] for name, one in by_set.items()) / len(chosen) for by_set in (chosen, *fixed)
        )
        return (
            f"Chosen on all OOD sets but one and judged on that one, for each in turn, it reaches {elsewhere:.1f} % on "
            f"average; the choice by likelihood {likely:.1f} %, the default {default:.1f} %."
        )


def words(one: Tried) -> str:
    setting = one.setting
    features = "log z" if setting.transform == "log" else "z"
    if isinstance(setting, KernelSetting):
        return f"bandwidth {one.bandwidth:.3g}, {features}, {setting.layer}"
    how = "one per class" if setting.fit == "classes" else "EM"
    return (
        f"{how}, {setting.components} components, {setting.covariance}, ridge {setting.ridge:g}, {features}, "
        f"{setting.neurons} neurons, {setting.layer}"
    )


def open_features(
    head: str | Path, sets: Mapping[str, str | Path], ood: Mapping[str, str | Path], before: Mapping[str, str | Path]
) -> Features:
    """Features from files: `sets` has train and test; `before`, if any, all of them before the non-linearity."""
    classes = Head.load(head)
    after = Sets(
        FeatureSet.open(sets["train"]),
        FeatureSet.open(sets["test"]),
        {name: FeatureSet.open(path) for name, path in ood.items()},
    )
    given = Features(classes.n_classes, after, _before(ood, before))
    check_columns(given.width, f"{after.train.name}: z", columns=classes.n_features)
    given.check()
    return given


def search_in_store(features: Features, store: Store, engine: Engine, *, settings: int, seed: int) -> SearchSummary:
    """The search, each setting a step of the store: the same files continue where they stopped."""
    layers = [features.layer(name) for name in features.layers]
    files = [[given.stamp() for given in layer.every.values()] for layer in layers]
    run = store.run({"files": files, "names": list(features.after.ood), "classes": features.classes}, kind="Tune")
    return SearchSummary(tune(features, settings=settings, seed=seed, run=run, engine=engine))


def _before(ood: Mapping[str, str | Path], before: Mapping[str, str | Path]) -> Sets | None:
    if not before:
        return None
    wanted = ["train", "test", *ood]
    for name in wanted:
        if name not in before:
            raise SoftscopeError(f"--before {name}=FILE is missing", f"Give all of {', '.join(wanted)}, or none")
    for name in before:
        if name not in wanted:
            raise SoftscopeError(f"--before {name}: no such set", f"There is {', '.join(wanted)}")
    opened = {name: FeatureSet.open(path) for name, path in before.items()}
    return Sets(opened["train"], opened["test"], {name: opened[name] for name in ood})


def _plain(one: Tried) -> dict[str, Any]:
    known = {"mean_auroc": one.mean_auroc} if one.auroc else {}
    return {**one.to_dict(), **known}
