"""A guarded model as one HTML page: a person drops an image and sees class, p and alarm; nothing is asked of a server.

The page holds the graph, onnxruntime-web and samples with the outputs they gave in Python; it runs these first.
"""

import base64
import gzip
import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..errors import SoftscopeError
from ..files import existing_file, write_bytes
from ..models import load_onnx
from .exporting import check_guarded
from .onnx_pixels import IMAGE
from .onnx_running import inputs_of, samples
from .onnx_tensor import dimensions

_RUNTIME = {"RUNTIME": "ort.wasm.bundle.min.mjs", "WASM": "ort-wasm-simd-threaded.wasm"}


def write_page(model: str | os.PathLike[str], runtime: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write the guarded .onnx file `model` as a page; `runtime` is the folder `dist` of npm's onnxruntime-web."""
    described = check_guarded(model)
    graph = load_onnx(model)
    if described.get("preprocessing") is None:
        raise SoftscopeError(f"{model}: does not take images", "Export it without --raw-input")
    shapes, expected = described["samples"]["shapes"], described["samples"]
    parts = {name: _runtime_file(Path(runtime), file) for name, file in _RUNTIME.items()}
    parts |= {"MODEL": existing_file(model).read_bytes(), "SAMPLES": samples(graph, shapes)[IMAGE].tobytes()}
    guard = described["guard"]
    facts = {
        "promise": _promise(guard),
        "about": f"{guard['estimator']}, calibrated on {guard['calibration_rows']:,} known inputs; guard "
        f"{described['sha256']}; {described['preprocessing']}",
        "classes": described["classes"],
        "takes": dimensions(inputs_of(graph.graph)[0])[1:],
        "shape": shapes[IMAGE],
        **{name: expected[name] for name in ("uncertainty", "alarm")},
    }
    page = (files(__package__) / "page.html").read_text(encoding="utf-8")
    for name, content in parts.items():
        page = page.replace(f"@{name}@", base64.b64encode(gzip.compress(content, 6, mtime=0)).decode())
    # Last, and without <: a class may be called @MODEL@ or </script>.
    page = page.replace("@FACTS@", json.dumps(facts).replace("<", "\\u003c"))
    write_bytes(path, page.encode())


def _promise(guard: dict[str, Any]) -> str:
    share, sure = f"{100 * guard['false_alarms']:.3g} %", guard["confidence"]
    how = "on average over calibrations" if sure is None else f"with confidence {100 * sure:.3g} %"
    return f"At most {share} of known inputs raise an alarm, {how}."


def _runtime_file(folder: Path, name: str) -> bytes:
    try:
        return existing_file(folder / name).read_bytes()
    except SoftscopeError as error:
        raise SoftscopeError(
            f"{folder}: there is no {name}", "npm install onnxruntime-web, then give node_modules/onnxruntime-web/dist"
        ) from error
