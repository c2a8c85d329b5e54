"""Hugging Face classifiers: heads found without inputs, folders with their processor, texts with their tokenizer."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

import softscope as sx
from softscope import SoftscopeError
from softscope.models import open_model

transformers = pytest.importorskip("transformers")

from .zoo import hugging_face, try_export, try_model  # noqa: E402


@pytest.mark.parametrize("name", ["ViT", "DeiT, distilled", "DINOv2", "RoBERTa", "GPT-2", "GPT-2, no padding token"])
def test_the_head_is_found_and_gives_the_models_own_logits(name):
    assert try_model("Hugging Face", name, hugging_face).outcome == "opens"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Swin", "SigLIP", "ResNet", "LeViT, distilled", "T5", "Wav2Vec2"])
def test_more_families_open(name):
    assert try_model("Hugging Face", name, hugging_face).outcome == "opens"


def test_two_heads_whose_mean_is_the_answer_are_one_head():
    model = hugging_face("DeiT, distilled")
    head = sx.Head.from_torch(model)
    assert head.weight.shape == (5, 64)
    np.testing.assert_allclose(head.weight[:, :32], model.cls_classifier.weight.detach().numpy() / 2)
    np.testing.assert_allclose(head.weight[:, 32:], model.distillation_classifier.weight.detach().numpy() / 2)


@pytest.mark.slow
def test_their_onnx_export_is_the_same_head():
    assert try_export("ONNX exports", "DeiT, distilled")[2:] == ("opens", "5 x 64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A ViT with class names and an image processor, as save_pretrained writes them."""
    place = tmp_path_factory.mktemp("vit")
    model = hugging_face("ViT")
    model.config.id2label = dict(enumerate(["cat", "dog", "hen", "owl", "pig"]))
    model.config.label2id = {name: number for number, name in model.config.id2label.items()}
    model.save_pretrained(place)
    (place / "preprocessor_config.json").write_text(
        json.dumps(
            {
                "image_processor_type": "ViTImageProcessor",
                "size": {"height": 32, "width": 32},
                "image_mean": [0.5, 0.4, 0.3],
                "image_std": [0.2, 0.3, 0.4],
                "resample": 3,
                "do_resize": True,
                "do_rescale": True,
                "rescale_factor": 1 / 255,
                "do_normalize": True,
            }
        )
    )
    return place


def test_a_folder_brings_its_classes_and_preprocessing(folder, tmp_path):
    opened = open_model(str(folder))
    assert opened.classes == ("cat", "dog", "hen", "owl", "pig")
    chosen = opened.preprocessing
    assert (chosen.size, chosen.mean, chosen.std) == ((32, 32), (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    assert (chosen.interpolation, chosen.squash) == ("bicubic", True)
    rng = np.random.default_rng(0)
    for name in ("owl", "cat"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pets" / name / f"{number}.png")
    head, features = sx.extract(str(folder), tmp_path / "pets")
    assert features.labels.tolist() == [0, 0, 0, 3, 3, 3]
    image = Image.open(tmp_path / "pets" / "cat" / "0.png").resize((32, 32), Image.Resampling.BICUBIC)
    x = ((np.asarray(image) / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4]).transpose(2, 0, 1)[None].astype(np.float32)
    with torch.no_grad():
        own = hugging_face("ViT").eval()(torch.from_numpy(x)).logits.numpy()
    np.testing.assert_allclose(head.logits(features.array()[:1]), own, atol=1e-4)


@pytest.mark.slow
def test_a_name_on_the_hub_opens_offline_from_the_hubs_own_cache(folder, tmp_path):
    snapshot = tmp_path / "hub" / "models--zoo--vit" / "snapshots" / ("0" * 40)
    shutil.copytree(folder, snapshot)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
    np.save(tmp_path / "images.npy", np.random.default_rng(0).integers(0, 256, (4, 40, 50, 3), dtype=np.uint8))
    # The hub's library reads these variables when it is imported, hence a process of its own.
    offline = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    words = ["extract", "hf:zoo/vit", "images.npy", "-o", "features"]
    command = [sys.executable, "-m", "softscope", *words]
    done = subprocess.run(command, cwd=tmp_path, env=offline, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    head = sx.Head.load(tmp_path / "features" / "head.safetensors")
    assert head.classes == ("cat", "dog", "hen", "owl", "pig")
    np.testing.assert_array_equal(head.weight, hugging_face("ViT").classifier.weight.detach().numpy())
    words[1] = "hf:zoo/gone"
    done = subprocess.run([*command[:3], *words], cwd=tmp_path, env=offline, capture_output=True, text=True)
    assert done.returncode != 0
    assert "zoo/gone: can't be opened as a Hugging Face classifier" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_object_takes_dict_batches_and_made_up_labels_are_no_names():
    model = hugging_face("BERT")
    ids = torch.randint(5, 99, (7, 6), generator=torch.Generator().manual_seed(0))
    batches = [{"input_ids": ids[:4], "labels": torch.arange(4) % 5}, {"input_ids": ids[4:], "labels": torch.arange(3)}]
    head, features = sx.extract(model, batches)
    assert head.classes is None
    assert features.labels.tolist() == [0, 1, 2, 3, 0, 1, 2]
    with torch.no_grad():
        own = model.eval()(ids).logits.numpy()
    np.testing.assert_allclose(head.logits(features.array()), own, atol=1e-5)


def test_texts_go_through_the_tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[PAD]", "[UNK]", "cats", "purr", "dogs", "bark", "loudly"]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    model = hugging_face("BERT").eval()
    texts = ["cats purr", "dogs bark loudly", "cats bark"]
    head, features = sx.extract(model, texts, [0, 1, 0], processor=fast)
    with torch.no_grad():
        own = model(**fast(texts, padding=True, return_tensors="pt")).logits.numpy()
    np.testing.assert_allclose(head.logits(features.array()), own, atol=1e-5)
    with pytest.raises(SoftscopeError, match="texts need its tokenizer"):
        sx.extract(model, texts)


def test_what_is_no_classifier_is_refused_in_a_line(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(SoftscopeError, match="can't be opened as a Hugging Face classifier") as caught:
        open_model(str(tmp_path))
    assert "\n" not in str(caught.value)
    config = transformers.ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=37)
    transformers.ViTModel(config).save_pretrained(tmp_path)
    with pytest.raises(SoftscopeError, match="is a ViTModel, not a classifier"):
        open_model(str(tmp_path))


def test_a_text_model_says_that_it_reads_no_images():
    with pytest.raises(SoftscopeError, match=r"reads texts, not images. Use Python: sx.extract\(model, texts"):
        sx.extract(hugging_face("BERT"), np.zeros((2, 3, 8, 8), np.float32))
