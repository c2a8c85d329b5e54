"""Classifiers of many families with random weights, opened, extracted, compared with their own logits.

`make zoo` runs all of them and writes docs/zoo.md; a few are in the slow tests.
"""

import importlib.abc
import importlib.machinery
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

import softscope as sx
from softscope.head.search import _own_probe

CLASSES = 5
_TEXT = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 37,
    "num_labels": CLASSES,
}  # fmt: skip
_IMAGE = {**_TEXT, "image_size": 32, "patch_size": 8}
_WORDS = {**_TEXT, "vocab_size": 99}
_TOWERS = {
    "vision_config": {key: value for key, value in _IMAGE.items() if key != "num_labels"},
    "text_config": {key: value for key, value in _WORDS.items() if key != "num_labels"},
    "num_labels": CLASSES,
}
_SOUND = {
    **_TEXT, "conv_dim": (16, 16, 16), "conv_kernel": (10, 3, 3), "conv_stride": (5, 2, 2),
    "num_feat_extract_layers": 3, "vocab_size": 32,
}  # fmt: skip
_WINDOWS = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2]}
_STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_labels": CLASSES}
_PAD = {"pad_token_id": 0}

# Family: the class of transformers without "For...Classification", what follows it, and its configuration.
HUGGING_FACE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ViT": ("ViT", "ImageClassification", _IMAGE),
    "DeiT": ("DeiT", "ImageClassification", _IMAGE),
    "DeiT, distilled": ("DeiT", "ImageClassificationWithTeacher", _IMAGE),
    "Swin": ("Swin", "ImageClassification", {**_WINDOWS, "window_size": 4, "num_labels": CLASSES}),
    "Swin v2": ("Swinv2", "ImageClassification", {**_WINDOWS, "window_size": 4, "num_labels": CLASSES}),
    "BEiT": ("Beit", "ImageClassification", _IMAGE),
    "ConvNeXt": ("ConvNext", "ImageClassification", {**_STAGES, "image_size": 32}),
    "ConvNeXt v2": ("ConvNextV2", "ImageClassification", {**_STAGES, "image_size": 32}),
    "DINOv2": ("Dinov2", "ImageClassification", {k: v for k, v in _IMAGE.items() if k != "intermediate_size"}),
    "SigLIP": ("Siglip", "ImageClassification", _TOWERS),
    "CLIP": ("CLIP", "ImageClassification", _TOWERS),
    "ResNet": ("ResNet", "ImageClassification", {**_STAGES, "embedding_size": 8}),
    "RegNet": ("RegNet", "ImageClassification", {**_STAGES, "embedding_size": 8}),
    "MobileViT": (
        "MobileViT", "ImageClassification",
        {"image_size": 64, "hidden_sizes": [32, 48, 64], "neck_hidden_sizes": [8, 16, 24, 32, 48, 64, 64],
         "num_labels": CLASSES},
    ),
    "MobileNetV2": ("MobileNetV2", "ImageClassification", {"image_size": 32, "num_labels": CLASSES}),
    "EfficientNet": (
        "EfficientNet", "ImageClassification",
        {"image_size": 32, "width_coefficient": 0.2, "depth_coefficient": 0.2, "hidden_dim": 256,
         "num_labels": CLASSES},
    ),
    "PVT": ("Pvt", "ImageClassification", {"image_size": 64, "num_labels": CLASSES}),
    "LeViT": ("Levit", "ImageClassification", {"num_labels": CLASSES}),
    "LeViT, distilled": ("Levit", "ImageClassificationWithTeacher", {"num_labels": CLASSES}),
    "PoolFormer": ("PoolFormer", "ImageClassification", _STAGES),
    "SegFormer": ("Segformer", "ImageClassification", {**_STAGES, "num_attention_heads": [1, 1, 2, 2]}),
    "BERT": ("Bert", "SequenceClassification", _WORDS),
    "DistilBERT": (
        "DistilBert", "SequenceClassification",
        {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 37, "vocab_size": 99, "num_labels": CLASSES},
    ),
    "RoBERTa": ("Roberta", "SequenceClassification", _WORDS),
    "ALBERT": ("Albert", "SequenceClassification", {**_WORDS, "embedding_size": 16}),
    "DeBERTa": ("Deberta", "SequenceClassification", _WORDS),
    "DeBERTa v2": ("DebertaV2", "SequenceClassification", _WORDS),
    "ELECTRA": ("Electra", "SequenceClassification", {**_WORDS, "embedding_size": 16}),
    "GPT-2": (
        "GPT2", "SequenceClassification",
        {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 99, "num_labels": CLASSES, **_PAD},
    ),
    "GPT-2, no padding token": (
        "GPT2", "SequenceClassification",
        {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 99, "num_labels": CLASSES},
    ),
    "Llama": ("Llama", "SequenceClassification", {**_WORDS, **_PAD}),
    "Mistral": ("Mistral", "SequenceClassification", {**_WORDS, **_PAD, "num_key_value_heads": 2}),
    "Qwen2": ("Qwen2", "SequenceClassification", {**_WORDS, **_PAD, "num_key_value_heads": 2}),
    "T5": (
        "T5", "SequenceClassification",
        {"d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 2, "vocab_size": 99,
         "num_labels": CLASSES, "decoder_start_token_id": 0, "eos_token_id": 1},
    ),
    "Wav2Vec2": ("Wav2Vec2", "SequenceClassification", _SOUND),
    "HuBERT": ("Hubert", "SequenceClassification", _SOUND),
}  # fmt: skip

# One model of each family that is small enough to be built in a second or two.
TIMM = (
    "resnet10t", "resnetv2_50x1_bit", "densenet121", "dla34", "dpn48b", "vgg11", "inception_v3", "efficientnet_lite0",
    "mobilenetv2_035", "mobilenetv3_small_050", "mnasnet_small", "regnetx_002", "regnety_002", "repvgg_a0",
    "convnext_atto", "convnextv2_atto", "vit_tiny_patch16_224", "deit_tiny_patch16_224",
    "deit_tiny_distilled_patch16_224", "deit3_small_patch16_224", "beit_base_patch16_224",
    "swin_tiny_patch4_window7_224", "swinv2_tiny_window8_256", "cait_xxs24_224", "crossvit_tiny_240", "pit_ti_224",
    "pit_ti_distilled_224",
)  # fmt: skip


class Entry(NamedTuple):
    """What became of a model: `opens` with the size of its head, `refused` with the reason, or `not built` here."""

    world: str
    name: str
    outcome: str
    detail: str


def hugging_face(name: str) -> nn.Module:
    """A model of the family, with random weights."""
    import transformers

    family, task, config = HUGGING_FACE[name]
    torch.manual_seed(0)
    made = getattr(transformers, f"{family}For{task}")(getattr(transformers, f"{family}Config")(**config))
    return _stirred(made)


def timm_model(name: str) -> nn.Module:
    """A timm model with random weights."""
    import timm

    torch.manual_seed(0)
    return _stirred(timm.create_model(name, pretrained=False, num_classes=CLASSES))


def try_model(world: str, name: str, make: Callable[[str], nn.Module]) -> Entry:
    """Build, find the head, extract two inputs, compare with the model's own logits."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make(name).eval()
    except Exception as error:  # a family that this version of the library can't build
        return Entry(world, name, "not built", f"{type(error).__name__}: {str(error).splitlines()[0][:80]}")
    probe = _own_probe(model)
    try:
        alone = sx.Head.from_torch(model)
        head, features = sx.extract(model, probe)
    except sx.SoftscopeError as error:
        return Entry(world, name, "refused", error.what[:160])
    with torch.no_grad():
        made = model(**probe) if isinstance(probe, dict) else model(probe)
    own = getattr(made, "logits", made).numpy()
    error = float(np.abs(head.logits(features.array()) - own).max() / max(np.abs(own).max(), 1e-12))
    assert np.array_equal(alone.weight, head.weight)
    assert error < 1e-4, (name, error)
    return Entry(world, name, "opens", f"{head.n_classes} x {head.n_features}, {head.name.split('.', 1)[1]}")


class _Anything(type):
    """A class that has every attribute."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


def stub_torchvision() -> None:
    """Let timm import without torchvision: its names exist and do nothing."""

    class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
            if fullname.split(".")[0] != "torchvision":
                return None
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

        def create_module(self, spec: Any) -> types.ModuleType:
            module = types.ModuleType(spec.name)
            module.__path__ = []

            def named(name: str) -> Any:
                if name.startswith("__"):
                    raise AttributeError(name)
                return _Anything(name, (nn.Module,), {"__module__": "torchvision"})

            module.__getattr__ = named  # type: ignore[method-assign]
            return module

        def exec_module(self, module: types.ModuleType) -> None:
            """Nothing to run."""

    try:
        import torchvision  # noqa: F401
    except ImportError:
        sys.meta_path.append(Finder())


def _stirred(model: nn.Module) -> nn.Module:
    """Weights of a last layer that start at zero are drawn, so that there are logits to compare."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1 and not parameter.any():
                parameter.normal_(0, 0.05)
    return model


def run_all() -> Iterator[Entry]:
    for name in HUGGING_FACE:
        yield try_model("Hugging Face", name, hugging_face)
    stub_torchvision()
    for name in TIMM:
        yield try_model("timm", name, timm_model)


def page(entries: list[Entry]) -> str:
    lines = [
        "# The zoo: which classifiers open",
        "",
        "Made by `make zoo`: each family with random weights, its head found",
    ]
    lines += ["without inputs of ours, its features extracted, the head's logits equal to the model's own to 1e-4.", ""]
    for world in dict.fromkeys(entry.world for entry in entries):
        own = [entry for entry in entries if entry.world == world]
        built = [entry for entry in own if entry.outcome != "not built"]
        opened = sum(entry.outcome == "opens" for entry in built)
        lines += [
            f"## {world}: {opened} of {len(built)} open",
            "",
            "| family | outcome | head, or the reason |",
            "|---|---|---|",
        ]
        lines += [f"| {entry.name} | {entry.outcome} | {entry.detail.replace('|', '/')} |" for entry in own]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    torch.set_num_threads(2)
    collected = []
    for entry in run_all():
        print(*entry, sep="\t", flush=True)
        collected.append(entry)
    Path(sys.argv[1]).write_text(page(collected))
