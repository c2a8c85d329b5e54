"""Models as the command line names them: own files, factories, weights; nothing is unpickled."""

import pickle
import sys

import numpy as np
import pytest
import torch

from softscope import SoftscopeError
from softscope.cli import opening
from softscope.models import open_model
from softscope.paper.nets import build, save_model
from softscope.paper.nets.saving import open_saved

FACTORY = """
from torch import nn
def small():
    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 10))
def broken():
    return "no model"
def needs(argument):
    return argument
def sized(classes, bias=True):
    return nn.Linear(4, classes, bias=bias)
def fails():
    raise RuntimeError("no weights here")
def ours():
    from softscope.paper.nets import build
    return build("toy")
"""


@pytest.fixture
def factory(tmp_path, monkeypatch):
    (tmp_path / "user_models.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield tmp_path
    sys.modules.pop("user_models", None)


def test_an_own_file_brings_its_classes_and_data_set(tmp_path):
    save_model(build("toy"), tmp_path / "m.safetensors", classes=["x", "y", "z"], dataset="blobs")
    opened = open_saved(tmp_path / "m.safetensors")
    assert opened.classes == ("x", "y", "z")
    assert opened.dataset == "blobs"
    assert opened.preprocessing.layout == "pixels"
    assert opened.name == "m.safetensors"


def test_a_factorys_model_gets_pixels_divided_normalised_and_turned(factory):
    opened = open_model("user_models:small", mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    pixels = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), dtype=np.uint8)
    normal = (pixels / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4]
    np.testing.assert_allclose(opened.preprocessing.apply(pixels), normal.transpose(0, 3, 1, 2), rtol=1e-5, atol=1e-6)
    assert opened.preprocessing.source == "flags"


def test_a_factory_may_return_a_network_of_ours_and_take_arguments(factory):
    assert open_model("user_models:ours").preprocessing.layout == "pixels"
    assert open_model("user_models:sized(7, bias=False)").module.out_features == 7
    assert open_model("user_models:sized(7, bias=False)").module.bias is None


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
@pytest.mark.parametrize("prefix", ["", "module.", "model.", "model._orig_mod.", "module.net."])
def test_weights_are_loaded_from_plain_files(factory, suffix, prefix):
    from safetensors.torch import save_file

    model = open_model("user_models:small").module
    state = {prefix + name: tensor + 1 for name, tensor in model.state_dict().items()}
    path = factory / f"weights{suffix}"
    if suffix == ".pt":
        torch.save({"state_dict": state, "epoch": 3}, path)
    else:
        save_file(state, path)
    loaded = open_model("user_models:small", path).module.state_dict()
    assert all(torch.equal(loaded[name], state[prefix + name]) for name in loaded)


@pytest.mark.parametrize(
    "checkpoint",
    [
        lambda state: state,
        lambda state: {
            "model_state_dict": state,
            "optimizer_state_dict": {"state": {}, "param_groups": []},
            "epoch": 3,
        },
        lambda state: {"model": state, "args": {"lr": 0.1}},
        lambda state: {
            "state_dict": {f"model.{name}": value for name, value in state.items()},
            "pytorch-lightning": "2",
        },
        lambda state: {"model": {"state_dict": state}},
        lambda state: {f"model.{name}": value for name, value in state.items()} | {"loss.weight": torch.ones(3)},
        lambda state: {name: value.to(torch.bfloat16) for name, value in state.items()},
    ],
    ids=["bare", "training loop", "model", "lightning", "nested", "lightning with a loss", "bfloat16"],
)
def test_every_form_of_checkpoint_fits(factory, checkpoint):
    model = open_model("user_models:small").module
    state = {name: torch.round(tensor + 1) for name, tensor in model.state_dict().items()}
    torch.save(checkpoint(state), factory / "w.pt")
    loaded = open_model("user_models:small", factory / "w.pt").module.state_dict()
    assert all(torch.equal(loaded[name], state[name]) for name in state)


@pytest.mark.parametrize("content", [b"", b"PK", b"\x80\x02", b"junk" * 100, b"\x80\x04K\x01."])
def test_a_file_that_is_no_checkpoint_is_one_clear_line(factory, content):
    for name in ("w.pt", "w.safetensors"):
        (factory / name).write_bytes(content)
        with pytest.raises(SoftscopeError, match=r"w\.") as caught:
            open_model("user_models:small", factory / name)
        assert "\n" not in str(caught.value)


class Evil:
    def __reduce__(self):
        return (print, ("executed",))


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_a_pickle_with_code_is_refused_and_not_run(factory, capsys):
    with open(factory / "evil.pt", "wb") as file:
        pickle.dump({"state_dict": Evil()}, file)
    with pytest.raises(SoftscopeError, match="can't be read safely"):
        open_model("user_models:small", factory / "evil.pt")
    assert "executed" not in capsys.readouterr().out


def test_a_scripted_model_is_refused(factory):
    (factory / "scripted.pt").write_bytes(b"PK code and weights")
    with pytest.raises(SoftscopeError, match="would run their code"):
        open_model(str(factory / "scripted.pt"))


@pytest.mark.parametrize(
    ("model", "arguments", "words"),
    [
        ("user_models:absent", {}, "makes no model"),
        ("no_such_package:f", {}, "makes no model"),
        ("user_models:needs", {}, "makes no model"),
        ("user_models:broken", {}, "returned str"),
        ("absent.safetensors", {}, "no such file"),
        ("user_models:small", {"weights": "absent.pt"}, "no such file"),
        ("user_models:fails", {}, "makes no model .no weights here"),
        ("user_models:sized(os.getcwd())", {}, "arguments must be plain values"),
        ("user_models:small", {"std": (1.0, 0.0, 1.0)}, "above 0"),
        ("user_models:small", {"mean": (1.0, 2.0)}, "2 numbers for 3 channels"),
    ],
)
def test_what_names_no_model_is_said(factory, model, arguments, words):
    with pytest.raises(SoftscopeError, match=words):
        open_model(model, **arguments)


def test_weights_of_another_architecture_are_refused(factory):
    torch.save({"weight": torch.ones(2)}, factory / "other.pt")
    with pytest.raises(SoftscopeError, match="doesn't fit Sequential"):
        open_model("user_models:small", factory / "other.pt")


def test_weights_with_an_own_file_are_refused(tmp_path):
    save_model(build("toy"), tmp_path / "m.safetensors")
    with pytest.raises(SoftscopeError, match="--weights go with a factory"):
        opening.open_named(str(tmp_path / "m.safetensors"), {"weights": "w.pt"})
