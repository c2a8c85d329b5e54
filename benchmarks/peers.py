"""The peers' own code, loaded for comparison."""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_PEER = "pytorch_ood"


def detector(module: str, name: str) -> tuple[Any, str]:
    """pytorch-ood's detector `name`, or None and why it isn't there.

    Its package imports torchvision for data sets and models; the detectors don't need it. Where torchvision is
    missing only the detector's own file (and what that imports) is loaded.
    """
    spec = find_spec(_PEER)
    if spec is None or not spec.submodule_search_locations:
        return None, "pytorch-ood is not installed: pip install --no-deps 'pytorch-ood==0.4.0'"
    if find_spec("torch") is None:
        return None, "torch is not installed: pip install 'softscope[torch]'"
    import_module("softscope.torch_door")  # idle threads that spin would be charged to the peer
    if find_spec("torchvision") is None:
        root = spec.submodule_search_locations[0]
        for package, folder in ((_PEER, root), (f"{_PEER}.detector", f"{root}/detector")):
            if package not in sys.modules:
                bare = ModuleType(package)
                bare.__spec__ = spec
                bare.__path__ = [folder]
                sys.modules[package] = bare
    try:
        return getattr(import_module(f"{_PEER}.detector.{module}"), name), ""
    except (ImportError, AttributeError) as error:
        return None, f"pytorch-ood can't be imported ({error})"
