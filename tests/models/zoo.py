"""Classifiers of many families, opened, extracted, compared with their own logits, diagnosed.

`make zoo` runs all of them, each in a process of its own, and writes docs/zoo.md; a few are in the tests. Those here
have random weights; `trained_zoo.py` has the really trained ones.
"""

import importlib.abc
import importlib.machinery
import json
import multiprocessing
import sys
import tempfile
import textwrap
import time
import types
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version
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

# Exported to ONNX, opened from the file and compared with the torch model.
EXPORTED = (
    "ViT", "DeiT, distilled", "Swin", "ConvNeXt", "DINOv2", "ResNet", "MobileViT", "BERT", "DistilBERT", "RoBERTa",
)  # fmt: skip

# One small model of each of the 89 modules of timm that have one of at most 90 million parameters; of some families
# more.
# Without one: deepseek_vit, gemma4_vit, mobilenetv5, naflexvit, nasnet, pnasnet, qwen3_vit, vision_transformer_sam.
TIMM = (
    "beit_base_patch16_224", "halonet_h1", "repvgg_a0", "cait_xxs24_224", "coat_tiny", "convit_tiny",
    "convmixer_768_32", "convnext_atto", "cpubone_nano", "crossvit_tiny_240", "csatv2", "cs3darknet_focus_s",
    "davit_tiny", "deit_tiny_patch16_224", "densenet121", "dla34", "dpn68", "edgenext_xx_small",
    "efficientformer_l1", "efficientformerv2_s0", "efficientnet_lite0", "efficientvim_m1", "efficientvit_b0",
    "efficientvit_m0", "eva02_tiny_patch14_224", "fasternet_t0", "fastvit_t8", "focalnet_tiny_srf", "gcvit_xxtiny",
    "ghostnet_100", "hardcorenas_b", "hgnetv2_b0", "hiera_tiny_224", "hieradet_small", "hrnet_w18_small",
    "iformer_t", "inception_next_atto", "inception_resnet_v2", "inception_v3", "inception_v4", "lcnetv2_small",
    "levit_128s", "lowformer_b0", "mambaout_tiny", "maxvit_tiny_rw_224", "caformer_s18", "gmlp_ti16_224",
    "mobilenetv3_small_050", "mobilevit_xxs", "mvitv2_tiny", "nest_tiny", "nextvit_small", "nf_regnet_b0",
    "pit_ti_224", "pvt_v2_b0", "rdnet_tiny", "regnetx_002", "repghostnet_050", "repvit_m1", "res2net50d",
    "resnest14d", "resnet10t", "resnetv2_18", "rexnet_100", "selecsls42", "legacy_seresnet18", "sequencer2d_s",
    "shvit_s1", "skresnet18", "starnet_s100", "swiftformer_xs", "swin_tiny_patch4_window7_224",
    "swinv2_tiny_window8_256", "swinv2_cr_tiny_224", "tiny_vit_5m_224", "tnt_s_legacy_patch16_224", "tresnet_m",
    "twins_svt_small", "vgg11", "visformer_tiny", "vit_tiny_patch16_224", "vit_tiny_r_s16_p8_224",
    "vit_srelpos_small_patch16_224", "vitamin_small_224", "volo_d1_224", "ese_vovnet19b_slim_dw", "xception",
    "xception41", "xcit_tiny_12_p8_224", "resnetv2_50x1_bit", "deit_tiny_distilled_patch16_224",
    "deit3_small_patch16_224", "pit_ti_distilled_224", "mobilenetv2_035", "convnextv2_atto", "regnety_002",
)  # fmt: skip


class Entry(NamedTuple):
    """What became of a model: `opens` with the size of its head, `refused` with the reason, `not built` here, or
    `failed`: an error that is not ours, other logits than the model's own, a crash, a time-out.
    """

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


def torchvision_like(name: str) -> nn.Module:
    """The ways in which torchvision's classifiers end, on small bodies."""
    torch.manual_seed(0)
    body = [nn.Conv2d(3, 16, 3, 2), nn.ReLU()]
    pooled = [*body, nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    made = {
        "resnet: fc": nn.Sequential(OrderedDict(body=nn.Sequential(*pooled), fc=nn.Linear(16, CLASSES))),
        "vgg: classifier[-1]": nn.Sequential(
            OrderedDict(
                body=nn.Sequential(*pooled),
                classifier=nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Dropout(), nn.Linear(24, CLASSES)),
            )
        ),
        "vit: heads.head": nn.Sequential(
            OrderedDict(
                body=nn.Sequential(*pooled, nn.LayerNorm(16)),
                heads=nn.Sequential(OrderedDict(head=nn.Linear(16, CLASSES))),
            )
        ),
        "1x1 convolution, then pooling": nn.Sequential(
            *body, nn.Conv2d(16, CLASSES, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        ),
        "squeezenet: ReLU after the last convolution": nn.Sequential(
            *body, nn.Conv2d(16, CLASSES, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        ),
    }[name]
    made.pretrained_cfg = {"input_size": (3, 32, 32)}  # type: ignore[assignment]
    return made


TORCHVISION_LIKE = (
    "resnet: fc", "vgg: classifier[-1]", "vit: heads.head", "1x1 convolution, then pooling",
    "squeezenet: ReLU after the last convolution",
)  # fmt: skip


def try_model(world: str, name: str, make: Callable[[str], nn.Module], diagnosed: bool = False) -> Entry:
    """Build, find the head, extract two inputs, compare with the model's own logits; diagnose on random inputs."""
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
        return Entry(world, name, "refused", error.what)
    own = answer(model, probe)
    assert np.array_equal(alone.weight, head.weight)
    check(name, head, features, own)
    if diagnosed:
        diagnose_randomly(model, probe)
    return Entry(world, name, "opens", f"{head.n_classes} x {head.n_features}, {head.name.split('.', 1)[1]}")


def try_trained(world: str, name: str, run: Callable[[], str]) -> Entry:
    """Run one of `trained_zoo.py`, which returns the detail."""
    try:
        return Entry(world, name, "opens", run())
    except sx.SoftscopeError as error:
        return Entry(world, name, "refused", error.what.rsplit("/", 1)[-1])
    except ModuleNotFoundError as error:
        return Entry(world, name, "not built", f"{error.name} is not installed")


def try_export(world: str, name: str) -> Entry:
    """Export a Hugging Face model to ONNX, open the file, compare with the torch model's logits."""
    model = hugging_face(name).eval()
    probe = _own_probe(model)
    names = list(probe)

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return self.model(**dict(zip(names, inputs))).logits

    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = str(Path(place) / "net.onnx")
        rows = {each: {0: "rows"} for each in names}
        try:
            torch.onnx.export(
                Plain().eval(), tuple(probe.values()), path, input_names=names, dynamic_axes=rows, dynamo=False
            )
        except Exception as error:  # the exporter fails in its own ways
            return Entry(world, name, "not built", str(error).splitlines()[0][:80])
        try:
            head, features = sx.extract(path, {each: value.numpy() for each, value in probe.items()})
        except sx.SoftscopeError as error:
            return Entry(world, name, "refused", error.what.removeprefix(f"{place}/"))
    check(name, head, features, answer(model, probe))
    return Entry(world, name, "opens", f"{head.n_classes} x {head.n_features}")


def answer(model: nn.Module, probe: Any) -> np.ndarray:
    """The model's own logits."""
    with torch.no_grad():
        made = model(**probe) if isinstance(probe, dict) else model(probe)
    return getattr(made, "logits", made).numpy()


def check(name: str, head: sx.Head, features: sx.FeatureSet, own: np.ndarray) -> None:
    """The head's logits are the model's own to 1e-4 of the largest."""
    error = float(np.abs(head.logits(features.array()) - own).max() / max(np.abs(own).max(), 1e-12))
    assert error < 1e-4, (name, error)


def diagnose_randomly(model: nn.Module, probe: Any) -> None:
    """A whole diagnosis on made-up inputs: that it ends, not what it says, is the point."""
    generator = torch.Generator().manual_seed(0)

    def inputs(rows: int) -> Any:
        def like(value: torch.Tensor) -> torch.Tensor:
            shape = (rows, *value.shape[1:])
            if value.is_floating_point():
                return torch.randn(shape, generator=generator)
            drawn = torch.randint(5, int(value.max()) + 1, shape, generator=generator)
            drawn[:, -1] = value[0, -1]  # the end of a text stays what it is
            return drawn

        return {key: like(value) for key, value in probe.items()} if isinstance(probe, dict) else like(probe)

    def labelled(rows: int) -> Any:
        made, labels = inputs(rows), torch.arange(rows) % CLASSES
        return {**made, "labels": labels} if isinstance(made, dict) else (made, labels)

    if isinstance(probe, dict) and len(next(iter(probe.values()))) == 1:
        return  # without a padding token only one row at a time
    sx.diagnose(model, train=labelled(40), test=labelled(30), ood={"noise": inputs(30)}, bootstraps=20)


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


def apart(attempt: Callable[..., Entry], world: str, name: str, *more: Any, seconds: float = 600) -> Entry:
    """What `attempt(world, name, *more)` returns in a process of its own: nothing that a model does ends the run."""
    forked = multiprocessing.get_context("fork")  # what is imported here is imported there
    receiver, sender = forked.Pipe(duplex=False)

    def work() -> None:
        try:
            entry = attempt(world, name, *more)
        except Exception as error:
            entry = Entry(world, name, "failed", " ".join(f"{type(error).__name__}: {error}".split()))
        sender.send_bytes(json.dumps(entry).encode())

    process = forked.Process(target=work)
    process.start()
    sender.close()
    try:
        if receiver.poll(seconds):
            return Entry(*json.loads(receiver.recv_bytes()))
        return Entry(world, name, "failed", f"not done after {seconds:g} seconds")
    except EOFError:
        process.join()
        return Entry(world, name, "failed", f"its process ended with exit code {process.exitcode}")
    finally:
        process.kill()
        process.join()


def run_all() -> Iterator[Entry]:
    """Every model of the zoo, one after the other."""
    from trained_zoo import ENCODERS, ONNX_FILES, with_version

    with suppress(ImportError):
        from transformers import PreTrainedModel  # noqa: F401  once here, not once per model
    for name in HUGGING_FACE:
        yield apart(try_model, "Hugging Face", name, hugging_face)
    for name in TORCHVISION_LIKE:
        yield apart(try_model, "torchvision-like heads", name, torchvision_like, True)
    for name in EXPORTED:
        yield apart(try_export, "ONNX exports", name)
    for name, run in ONNX_FILES.items():
        yield apart(try_trained, "ONNX files out of packages", with_version(name), run)
    for name, run in ENCODERS.items():
        yield apart(try_trained, "encoders out of packages", with_version(name), run)
    stub_torchvision()
    with suppress(ImportError):
        import timm  # noqa: F401
    for name in TIMM:
        yield apart(try_model, "timm", name, timm_model)


_TITLES = {
    "Hugging Face": "Random weights from a configuration; the head is found without inputs of ours.",
    "torchvision-like heads": "The ways in which torchvision's models end, on small bodies; then diagnosed.",
    "ONNX exports": "Hugging Face families exported by torch, opened from the file, compared with the torch model.",
    "ONNX files out of packages": (
        "All ONNX files of five packages, really trained, on data that any machine has; diagnosed where it says so."
    ),
    "encoders out of packages": "Really trained; on data that any machine has.",
    "timm": "One small model of each module of timm, random weights, 5 classes, at its own size of images.",
}


def page(entries: list[Entry]) -> str:
    """docs/zoo.md."""
    libraries = ("torch", "transformers", "timm", "onnxruntime")
    lines = ["# The zoo: which classifiers open", ""]
    lines += [f"Made by one run of `make zoo` with {', '.join(f'{each} {version(each)}' for each in libraries)}."]
    lines += ["Each model is opened, its features are extracted, and the head's logits equal the model's own to 1e-4"]
    lines += ["of the largest; one that can't be opened says why.", ""]
    for world in dict.fromkeys(entry.world for entry in entries):
        own = [entry for entry in entries if entry.world == world]
        built = [entry for entry in own if entry.outcome != "not built"]
        opened = sum(entry.outcome == "opens" for entry in built)
        lines += [f"## {world}: {opened} of {len(built)} open", "", _TITLES[world], ""]
        lines += ["| model | outcome | head, or the reason |", "|---|---|---|"]
        for entry in own:
            detail = textwrap.shorten(entry.detail.replace("|", "/"), 240, placeholder=" ...")
            lines.append(f"| {entry.name} | {entry.outcome} | {detail} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    torch.set_num_threads(1)
    started = time.monotonic()
    collected = []
    for entry in run_all():
        print(f"{time.monotonic() - started:.0f} s", *entry, sep="\t", flush=True)
        collected.append(entry)
    Path(sys.argv[1]).write_text(page(collected))
    sys.exit(any(entry.outcome == "failed" for entry in collected))
