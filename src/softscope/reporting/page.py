"""`report`: from a `Diagnosis` to one HTML file that needs no network, no server and no other file.

Three walls keep a hostile name from running: jinja2 escapes every value, pictures are built from escaped parts alone,
and the page's own policy allows no script but the one whose hash it states, and no request to anywhere.
"""

import hashlib
import json
import os
from base64 import b64encode
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ..diagnosis.model import OUTCOMES, Diagnosis
from ..errors import SoftscopeError
from ..files import first_line, write_bytes
from ..metrics import Interval
from .charts import outcome_bar, reliability_diagram, risk_diagram
from .pictures import curve_pictures, layer_maps, strength_pictures, structure_picture
from .tables import cause_table, class_table, confusions, score_table
from .threshold import gallery, slider
from .thumbnails import GivenImages, thumbnails
from .verdict import ICONS, summary

if TYPE_CHECKING:
    from jinja2 import Environment


_MISFITS = (LookupError, ValueError, TypeError, ArithmeticError, AttributeError)


def report(diagnosis: Diagnosis, path: str | os.PathLike[str], images: Mapping[str, GivenImages] | None = None) -> None:
    """Write the report of `diagnosis` to `path`, atomically.

    `images` shows the most confidently wrong inputs: for an OOD set's name, or "test", a parquet file in the hub's
    layout or an uint8 array [N, H, W, C], in the order of the features.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import softscope as sx
    >>> rng = np.random.default_rng(0)
    >>> rows, labels = np.abs(rng.normal(size=(300, 4))), np.arange(300) % 2
    >>> head, train, sets = sx.Head(rng.normal(size=(2, 4))), (rows[:150], labels[:150]), {"far": 9 + rows[:50]}
    >>> diagnosis = sx.diagnose(head, train, rows[150:], sets, bootstraps=20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "report.html")
    ...     sx.report(diagnosis, path)
    ...     path.read_text()[:15]
    '<!doctype html>'
    """
    try:
        page = render(diagnosis, images).encode()
    except _MISFITS as error:  # an edited or older file: each field is sound, but they don't belong together
        raise SoftscopeError(
            f"the diagnosis does not fit together ({type(error).__name__}: {first_line(error)})",
            "Run `softscope diagnose` again",
        ) from error
    write_bytes(path, page)


def render(diagnosis: Diagnosis, images: Mapping[str, GivenImages] | None = None) -> str:
    script = _asset("report.js")
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    shown = gallery(diagnosis, thumbnails(diagnosis, images))
    return (
        _environment()
        .get_template("report.html")
        .render(
            diagnosis=diagnosis,
            outcomes=OUTCOMES,
            style=Markup(_asset("page.css") + _asset("charts.css")),
            script=Markup(script),
            script_hash=digest,
            summary=summary(diagnosis),
            icons=ICONS,
            table=score_table(diagnosis),
            causes=cause_table(diagnosis),
            outcome_bars={name: outcome_bar(name, inputs) for name, inputs in diagnosis.inputs.items()},
            slider=slider(diagnosis, shown),
            gallery=shown,
            curves=curve_pictures(diagnosis),
            confusions=confusions(diagnosis),
            maps=layer_maps(diagnosis),
            classes=class_table(diagnosis),
            reliability=None if diagnosis.reliability is None else reliability_diagram(diagnosis.reliability),
            risk=None if diagnosis.risk is None else risk_diagram(diagnosis.risk),
            structure=structure_picture(diagnosis),
            strengths=strength_pictures(diagnosis),
        )
    )


def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"percent": percent, "points": points, "bounds": bounds, "number": number, "pretty": pretty}
    return made


def _asset(name: str) -> str:
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8")


def percent(share: float, digits: int = 1) -> str:
    """0.934 as 93.4 %, with a space that doesn't break."""
    return f"{100 * share:.{digits}f}\u00a0%"


def points(share: float) -> str:
    """0.0421 as 4.2, with a proper minus sign."""
    return _signed(f"{100 * share:.1f}")


def bounds(interval: Interval, digits: int = 1) -> str:
    """The two ends of an interval of shares in percent: [92.9, 93.9]."""
    return f"[{_signed(f'{100 * interval.low:.{digits}f}')}, {_signed(f'{100 * interval.high:.{digits}f}')}]"


def number(value: float) -> str:
    """Four significant digits."""
    return _signed(f"{value:.4g}")


def _signed(digits: str) -> str:
    """A proper minus sign, and none before zero."""
    return digits.lstrip("-") if float(digits) == 0 else digits.replace("-", "−")


def pretty(value: Any) -> str:
    """A nested value of the provenance as indented JSON."""
    return value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)
