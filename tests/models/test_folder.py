"""`softscope extract`: from a model and a data set to head and feature files."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

from softscope import FeatureSet, Head, SoftscopeError
from softscope.cli.app import app
from softscope.images import fit_images, load_files
from softscope.models import extract_features
from softscope.models.opened import collected
from softscope.paper.nets import build, save_model
from softscope.paper.training import TrainSettings, train

NAMES = [str(digit) for digit in range(10)]


def write_parquet(path, images, labels, names):
    def png(image):
        stream = io.BytesIO()
        Image.fromarray(image.squeeze()).save(stream, "png")
        return {"bytes": stream.getvalue(), "path": "x.png"}

    features = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
    table = pa.table({"image": [png(image) for image in images], "label": labels})
    info = json.dumps({"info": {"features": features}})
    pq.write_table(table.replace_schema_metadata({"huggingface": info}), path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Digits blown up to 28 x 28 as a folder of parquet splits, other images, and a network trained on the digits."""
    from sklearn.datasets import load_digits

    place = tmp_path_factory.mktemp("extract")
    raw, labels = load_digits(return_X_y=True)
    images = np.kron(raw.reshape(-1, 8, 8), np.ones((1, 3, 3))).astype(np.uint8) * 15
    images = np.pad(images, ((0, 0), (2, 2), (2, 2)))[..., None]
    (place / "digits28").mkdir()
    write_parquet(place / "digits28" / "train-00000-of-00001.parquet", images[:300], labels[:300], NAMES)
    write_parquet(place / "digits28" / "test-00000-of-00001.parquet", images[300:400], labels[300:400], NAMES)
    noise = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
    write_parquet(place / "noise.parquet", noise, np.zeros(20, int), ["noise"])
    net = build("lenet", features=8)
    train(net, images[:300], labels[:300], TrainSettings(epochs=3, batch=32, threads=1))
    save_model(net, place / "lenet.safetensors", classes=NAMES, dataset="digits28")
    return place


def run(*words):
    return CliRunner().invoke(app, ["extract", *map(str, words)], catch_exceptions=True)


def test_extract_writes_the_head_and_one_file_a_split(folder, tmp_path):
    done = run(folder / "lenet.safetensors", folder / "digits28", "-o", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    head = Head.load(tmp_path / "head.safetensors")
    assert (head.n_classes, head.n_features, head.classes) == (10, 8, tuple(NAMES))
    assert {part["name"]: part["rows"] for part in told["sets"]} == {"train": 300, "test": 100}
    for part in told["sets"]:
        features = FeatureSet.open(tmp_path / f"digits28-{part['name']}.safetensors")
        right = (head.logits(features.array()).argmax(1) == features.labels).mean()
        assert part["accuracy"] == pytest.approx(right)
        assert features.metadata["dataset"] == "digits28"
    assert told["sets"][0]["accuracy"] > 0.5


def test_other_data_is_fitted_to_the_network_and_its_labels_are_left_out(folder, tmp_path):
    done = run(folder / "lenet.safetensors", folder / "noise.parquet", "-o", tmp_path)
    assert done.exit_code == 0, done.output
    features = FeatureSet.open(tmp_path / "noise.safetensors")
    assert len(features) == 20
    assert features.labels is None
    assert "accuracy" not in done.stdout


def test_images_are_kept_in_the_order_of_the_features_when_asked(folder, tmp_path):
    done = run(folder / "lenet.safetensors", folder / "digits28", "-o", tmp_path, "--split", "test", "--keep-images")
    assert done.exit_code == 0, done.output
    features = FeatureSet.open(tmp_path / "digits28-test.safetensors")
    kept = load_files([tmp_path / features.metadata["images"]])
    original = load_files([folder / "digits28" / "test-00000-of-00001.parquet"])
    assert np.array_equal(kept.images, original.images)
    assert np.array_equal(kept.labels, features.labels)
    assert not (tmp_path / "digits28-train.safetensors").exists()


def test_a_limit_draws_a_balanced_sample_and_before_is_recorded(folder, tmp_path):
    words = ["--split", "train", "--limit", "50", "--layer", "before"]
    done = run(folder / "lenet.safetensors", folder / "digits28", "-o", tmp_path, *words)
    assert done.exit_code == 0, done.output
    features = FeatureSet.open(tmp_path / "digits28-train.safetensors")
    assert np.bincount(features.labels).tolist() == [5] * 10
    assert features.metadata["layer"] == "before"
    assert "ReLU" in features.metadata["activation"]


def test_a_model_of_some_classes_takes_only_these_of_its_own_data_set(folder, tmp_path):
    net = build("lenet", features=4, classes=2)
    save_model(net, tmp_path / "two.safetensors", classes=["7", "3"], dataset="digits28")
    done = run(tmp_path / "two.safetensors", folder / "digits28", "-o", tmp_path, "--split", "test")
    assert done.exit_code == 0, done.output
    features = FeatureSet.open(tmp_path / "digits28-test.safetensors")
    original = load_files([folder / "digits28" / "test-00000-of-00001.parquet"])
    expected = original.labels[np.isin(original.labels, [3, 7])]
    assert np.array_equal(np.array([7, 3])[features.labels], expected)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--split", "validation"], "no split 'validation' here"),
        (["--mean", "a,b"], "expected numbers separated by commas"),
        (["--batch", "0"], "batch 0"),
    ],
)
def test_bad_options_are_said_and_nothing_is_written(folder, tmp_path, words, message):
    done = run(folder / "lenet.safetensors", folder / "digits28", "-o", tmp_path / "out", *words)
    assert isinstance(done.exception, SoftscopeError)
    assert message in str(done.exception)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_no_such_data_and_an_empty_folder_are_said(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    for data in ("no-such-set", tmp_path / "empty", tmp_path / "absent.parquet"):
        done = run(folder / "lenet.safetensors", data, "-o", tmp_path)
        assert isinstance(done.exception, SoftscopeError)


def test_images_are_put_into_the_form_a_network_takes():
    grey = np.random.default_rng(0).integers(0, 256, (2, 28, 28, 1), dtype=np.uint8)
    assert fit_images(grey, (None, None, 3)).shape == (2, 32, 32, 3)
    assert np.array_equal(fit_images(grey, (None, None, 3))[:, 2:30, 2:30, 1], grey[..., 0])
    assert fit_images(grey, (28, 28, 3)).shape == (2, 28, 28, 3)
    bits = fit_images(grey, (9, 9, 1))
    assert bits.shape == (2, 9, 9, 1)
    assert set(np.unique(bits)) <= {0, 1}
    colour = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    assert fit_images(colour, (32, 32, 1)).shape == (2, 32, 32, 1)
    assert fit_images(colour, (None, None, 3)) is colour


def test_a_catalogued_data_set_is_extracted_by_its_name(tmp_path):
    save_model(build("small", features=4), tmp_path / "small.safetensors", classes=NAMES, dataset="digits")
    done = run(tmp_path / "small.safetensors", "digits", "-o", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert sum(part["rows"] for part in told["sets"]) == 1797
    assert FeatureSet.open(tmp_path / "digits-test.safetensors").labels is not None
    refused = run(tmp_path / "small.safetensors", "mnist", "-o", tmp_path / "other", "--split", "nothing")
    assert isinstance(refused.exception, SoftscopeError)


def test_extraction_tells_how_far_it_is():
    told = []
    images = np.zeros((5, 8, 8, 1), np.uint8)
    extract_features(build("small"), images, batch=2, progress=lambda *step: told.append(step), name="zeros")
    assert told == [("features of zeros", done, 5) for done in (2, 4, 5)]


@pytest.mark.parametrize("words", [["--batch", "-1"], ["--batch", "0"], ["--limit", "-5"], ["--size", "0"]])
def test_a_bad_number_never_touches_an_existing_file(folder, tmp_path, words):
    (tmp_path / "digits28-train.safetensors").write_bytes(b"precious")
    done = run(folder / "lenet.safetensors", folder / "digits28", "-o", tmp_path, *words)
    assert isinstance(done.exception, SoftscopeError)
    assert "expected a whole number from 1 to" in str(done.exception)
    assert (tmp_path / "digits28-train.safetensors").read_bytes() == b"precious"
    assert len(list(tmp_path.iterdir())) == 1


def test_too_few_rows_never_replace_a_file(tmp_path):
    (tmp_path / "f.safetensors").write_bytes(b"precious")
    with pytest.raises(SoftscopeError, match="2 rows where there should be 3"):
        collected([np.zeros((2, 4), np.float32)], (3, 4), None, out=tmp_path / "f.safetensors", name="f", metadata={})
    assert (tmp_path / "f.safetensors").read_bytes() == b"precious"
