"""One command from a state dict and folders of images to a report, and what it says on the way."""

import json
import shlex
import shutil
import sys

import numpy as np
import pytest
from PIL import Image
from safetensors import safe_open
from typer.testing import CliRunner

from softscope import FeatureSet, Guard, Head, SoftscopeError
from softscope.cli.app import app
from softscope.diagnosis import Diagnosis
from softscope.models import extract


def run(*words):
    return CliRunner().invoke(app, ["diagnose", *map(str, words)], catch_exceptions=True)


@pytest.fixture(scope="module")
def finished(pets, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(pets)
        patch.setattr(sys, "path", sys.path.copy())
        done = run("mynet:Net(width=8)", "--weights", "state.pt", "--data", "pets", "-o", out)
        sys.modules.pop("mynet", None)
    assert done.exit_code == 0, (done.output, done.exception)
    return out, done


def test_one_command_leaves_report_diagnosis_features_and_guard(finished):
    out, _ = finished
    assert (out / "report.html").stat().st_size > 10_000
    diagnosis = Diagnosis.load(out / "diagnosis.json")
    assert diagnosis.classes == ("blue", "green", "red")
    assert set(diagnosis.ood) == {"yellow", "black"}
    head = Head.load(out / "features" / "head.safetensors")
    train = FeatureSet.open(out / "features" / "train.safetensors")
    assert (head.logits(train.array()).argmax(1) == train.labels).mean() > 0.95
    guard = Guard.load(out / "guard.safetensors")
    assert guard.calibration.counts.sum() == 60
    assert guard.estimator.info.name == (diagnosis.advice.recommended or "max")


def test_the_next_command_it_prints_scores_new_images(finished, at_home, tmp_path):
    (line,) = [line for line in finished[1].stdout.splitlines() if line.startswith("next: ")]
    words = shlex.split(line.removeprefix("next: "))
    assert words[:2] == ["softscope", "score"]
    new = {"NEW_IMAGES": str(at_home / "pets" / "ood" / "yellow"), "scores": str(tmp_path / "scores")}
    scored = CliRunner().invoke(app, [new.get(word, word) for word in words[1:]])
    assert scored.exit_code in (0, 3), scored.exception
    assert list((tmp_path / "scores").rglob("*.parquet"))


def test_it_says_what_it_understood_one_line_each(finished):
    lines = finished[1].stderr.splitlines()
    assert any(line.startswith("model: mynet:Net(width=8) (Net, 251 parameters, float32 on cpu)") for line in lines)
    assert "head: 3 classes x 8 features, fc" in lines
    assert any(line.startswith("preprocessing: 24 x 24") for line in lines)
    assert any(line.startswith("classes: blue, green, red (from pets, in its order)") for line in lines)
    assert "train: 180 images, 3 of the model's classes" in lines
    assert "ood/yellow: 40 images, unlabelled" in lines


def test_features_that_are_there_are_not_made_again(finished, at_home, monkeypatch):
    out, _ = finished
    before = (out / "features" / "train.safetensors").stat().st_mtime_ns
    monkeypatch.setattr("softscope.models.files.read_set", lambda *_: pytest.fail("extracted again"))
    done = run("mynet:Net(width=8)", "--weights", "state.pt", "--data", "pets", "-o", out, "--force")
    assert done.exit_code == 0, done.exception
    assert "was there already" in done.stderr
    assert (out / "features" / "train.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("place", ["features", "labels"])
def test_features_with_a_flipped_byte_are_made_again(at_home, tmp_path, place):
    from softscope.images import open_images
    from softscope.models import files, open_model
    from softscope.models.plan import make_plan

    plan = make_plan(open_model("mynet:Net", "state.pt"), {"train": open_images("pets/train", "train")})
    path = tmp_path / "train.safetensors"
    files.write_set(plan, "train", path)
    whole = path.read_bytes()
    labels, z = 180 * 8, 180 * 8 * 4
    assert len(whole) > labels + z
    flipped = len(whole) - (z // 2 if place == "features" else z + labels // 2)  # labels are wider, so they come first
    path.write_bytes(whole[:flipped] + bytes([whole[flipped] ^ 1]) + whole[flipped + 1 :])
    assert not files.write_set(plan, "train", path).cached
    assert path.read_bytes() == whole
    assert files.write_set(plan, "train", path).cached


def test_a_dry_run_stops_before_the_work(at_home, tmp_path):
    done = run("mynet:Net", "--weights", "state.pt", "--data", "pets", "-o", tmp_path / "out", "--dry-run")
    assert done.exit_code == 0, done.exception
    assert done.stdout.startswith("model: mynet:Net")
    assert not (tmp_path / "out").exists()


def test_an_interrupted_extraction_goes_on_where_it_stopped(at_home, tmp_path, monkeypatch):
    from softscope.images import open_images
    from softscope.models import files, open_model
    from softscope.models.plan import make_plan

    monkeypatch.setattr(files, "_PART_ROWS", 50)
    source = open_images("pets/train", "train")
    plan = make_plan(open_model("mynet:Net", "state.pt"), {"train": source})
    whole = files.write_set(plan, "train", tmp_path / "whole.safetensors")
    read, calls = files.read_set, []

    def interrupted(*arguments):
        calls.append(arguments[2])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return read(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(files, "read_set", interrupted)
        with pytest.raises(KeyboardInterrupt):
            files.write_set(plan, "train", tmp_path / "train.safetensors")
        assert not (tmp_path / "train.safetensors").exists()
        (part,) = tmp_path.glob(".train-*.parts")
        damaged = sorted(part.iterdir())[0]
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
        calls.append(None)
        files.write_set(plan, "train", tmp_path / "train.safetensors")
    assert [span.start for span in calls[4:]] == [0, 100, 150]
    again = FeatureSet.open(tmp_path / "train.safetensors")
    assert np.array_equal(again.array(), FeatureSet.open(whole.path).array())
    assert not list(tmp_path.glob(".train-*"))


def test_bad_images_are_named_skipped_and_counted(at_home, tmp_path):
    shutil.copytree("pets/test", tmp_path / "pets")
    broken = tmp_path / "pets" / "green" / "007.png"
    broken.write_bytes(broken.read_bytes()[:60])
    (tmp_path / "pets" / "red" / "000.png").write_bytes(b"")
    done = CliRunner().invoke(
        app, ["extract", "mynet:Net", str(tmp_path / "pets"), "--weights", "state.pt", "-o", str(tmp_path / "out")]
    )
    assert done.exit_code == 0, done.exception
    assert "118 rows, accuracy 100.00%, 2 bad images left out (first: " in done.stdout
    features = FeatureSet.open(tmp_path / "out" / "pets.safetensors")
    assert np.bincount(features.labels).tolist() == [40, 39, 39]


def test_classes_are_matched_by_name_whatever_their_order(at_home, tmp_path):
    _, given = extract("mynet:Net", "pets/test", weights="state.pt", classes=["blue", "green", "red"])
    for name, other in {"0-red": "RED", "1-blue": "Blue", "2-green": "green"}.items():
        shutil.copytree(f"pets/test/{name[2:]}", tmp_path / "other" / other)
    _, moved = extract("mynet:Net", tmp_path / "other", weights="state.pt", classes=["blue", "green", "red"])
    assert sorted(given.labels.tolist()) == sorted(moved.labels.tolist())
    head, _ = extract("mynet:Net", "pets/test", weights="state.pt")
    assert (head.logits(moved.array()).argmax(1) == moved.labels).mean() > 0.95


def test_labels_of_other_classes_are_left_out(at_home, tmp_path):
    for name in ("airplane", "automobile", "bird"):
        shutil.copytree("pets/ood/yellow", tmp_path / "planes" / name)
    out = tmp_path / "out"
    named = ["extract", "mynet:Net", str(tmp_path / "planes"), "--weights", "state.pt", "-o", str(out)]
    done = CliRunner().invoke(app, [*named, "--classes", "blue,green,red"])
    assert done.exit_code == 0, done.exception
    assert "its classes are not the model's, so its labels are left out" in done.stderr
    assert FeatureSet.open(out / "planes.safetensors").labels is None
    nameless = CliRunner().invoke(app, [*named[:-1], str(tmp_path / "nameless")])
    assert "fit those of planes no better than chance" in nameless.stderr
    assert FeatureSet.open(tmp_path / "nameless" / "planes.safetensors").labels is None
    assert Head.load(tmp_path / "nameless" / "head.safetensors").classes is None


def test_a_wrong_order_of_classes_is_noticed(at_home, tmp_path):
    words = ["--weights", "state.pt", "--data", "pets", "-o", tmp_path, "--dry-run", "--classes", "green,red,blue"]
    done = run("mynet:Net", *words)
    assert done.exit_code == 0, done.exception
    assert "only 0% of 180 labelled images are classified right, which is near chance" in done.stdout
    assert "is this the order of the classes?" in done.stdout


@pytest.mark.parametrize(
    ("flags", "better"),
    [
        (["--mean", "0.9", "--std", "0.3"], "labelled images right, with this preprocessing"),
        (["--bgr"], "use --mean 0 --std 1"),
        ([], None),
    ],
)
def test_wrong_preprocessing_is_noticed_by_its_effect(at_home, tmp_path, flags, better):
    words = ["mynet:Net", "--weights", "state.pt", "--data", "pets", "-o", tmp_path, "--dry-run"]
    done = run(*words, *flags)
    assert done.exit_code == 0, done.exception
    if better is None:
        assert "note:" not in done.stdout
    else:
        assert better in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "pets/train"], "needs training and test images"),
        (["--data", "pets", "--classes", "a,b"], "2 class names for 3 rows"),
        (["--data", "pets", "--size", "2"], "failed on a tensor of shape"),
        (["--data", "pets", "--channels", "1"], "failed on a tensor of shape"),
        (["--data", "pets", "--device", "cuda:9"], "device cuda:9"),
        (["--data", "pets", "--mean", "0.5,0.5"], "2 numbers for 3 channels"),
        (["--data", "pets", "--classes", "a,b,c"], "are not the model's (a, b, c). Name the model's outputs"),
        (["--data", "nowhere/at/all"], "no such file or folder"),
        (["--data", "pets", "--ood", "yellow"], "expected NAME=FILE"),
        (["--train", "pets/ood", "--test", "pets/test", "--ood", "x=pets/ood/black"], "different sizes"),
    ],
)
def test_every_obstacle_is_one_line_and_nothing_is_written(at_home, tmp_path, words, message):
    done = run("mynet:Net", "--weights", "state.pt", *words, "-o", tmp_path / "out")
    assert isinstance(done.exception, SoftscopeError), done.exception
    assert message in str(done.exception)
    assert "\n" not in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_without_unfamiliar_images_probes_and_held_out_classes_stand_in(at_home, tmp_path):
    done = run("mynet:Net", "--weights", "state.pt", "--train", "pets/train", "--test", "pets/test", "-o", tmp_path)
    assert done.exit_code == 0, done.exception
    diagnosis = Diagnosis.load(tmp_path / "diagnosis.json")
    assert list(diagnosis.ood)[:5] == ["noise", "shuffled", "inverted", "blurred", "photographs"]
    assert list(diagnosis.ood)[5:] == [f"held-out classes {number}" for number in (1, 2, 3)]
    assert "Optimistic: the network has seen them" in " ".join(done.stdout.split())
    assert Guard.load(tmp_path / "guard.safetensors").estimator.info.name == (diagnosis.advice.recommended or "max")
    assert "what the stand-ins can and can't say" in (tmp_path / "report.html").read_text().replace("&#39;", "'")


def test_nothing_at_all_is_explained(tmp_path):
    done = run("-o", tmp_path)
    assert "give MODEL and its images, or --head" in str(done.exception)


def test_two_images_in_all_are_one_clear_line(at_home, tmp_path):
    for split in ("train", "test"):
        for name in ("blue", "red"):
            (tmp_path / "tiny" / split / name).mkdir(parents=True)
            shutil.copy(f"pets/{split}/{name}/000.png", tmp_path / "tiny" / split / name)
    shutil.copytree("pets/ood", tmp_path / "tiny" / "ood")
    words = ["--weights", "state.pt", "--data", tmp_path / "tiny", "-o", tmp_path / "out"]
    refused = run("mynet:Net", *words)
    assert "3 outputs" in str(refused.exception)
    done = run("mynet:Net", *words, "--classes", "blue,green,red")
    assert isinstance(done.exception, SoftscopeError)
    assert str(done.exception).startswith("test: 2 images, a diagnosis needs at least 4; without a val set half")
    assert not (tmp_path / "out").exists()


def test_classes_without_images_are_named(at_home, tmp_path):
    shutil.copytree("pets", tmp_path / "pets")
    (tmp_path / "pets" / "train" / "pink").mkdir()
    words = ["mynet:Net", "--weights", "state.pt", "--data", tmp_path / "pets", "-o", tmp_path / "out", "--dry-run"]
    assert "pets has 4 classes (pink: no images). Remove the empty folder" in str(run(*words).exception)
    (tmp_path / "pets" / "train" / "pink").rmdir()
    shutil.rmtree(tmp_path / "pets" / "test" / "red")
    assert "note: test: no images of 1 of the model's classes: red" in run(*words).stdout


def test_features_of_another_model_are_made_anew(at_home, tmp_path):
    out = str(tmp_path)
    words = ["extract", "mynet:Net", "pets/test", "-o", out]
    CliRunner().invoke(app, [*words, "--weights", "state.pt"])
    with safe_open(tmp_path / "test.safetensors", "np") as file:
        first = file.metadata()["key"]
    done = CliRunner().invoke(app, words)
    assert "was there already" not in done.output
    with safe_open(tmp_path / "test.safetensors", "np") as file:
        assert file.metadata()["key"] != first


def test_features_of_other_images_of_the_same_name_are_not_written_over(at_home, tmp_path):
    shutil.copytree("pets/test", tmp_path / "other" / "test")
    words = ["extract", "mynet:Net", "pets/test", "-o", str(tmp_path / "out"), "--weights", "state.pt", "-q"]
    assert CliRunner().invoke(app, words).exit_code == 0
    before = (tmp_path / "out" / "test.safetensors").read_bytes()
    words[2] = str(tmp_path / "other" / "test")
    refused = CliRunner().invoke(app, words)
    assert "holds features of other images that are called test too. Give another --out" in str(refused.exception)
    assert (tmp_path / "out" / "test.safetensors").read_bytes() == before


def test_json_says_the_same_as_the_files(at_home, tmp_path):
    words = ["extract", "mynet:Net", "pets/test", "-o", str(tmp_path), "--weights", "state.pt", "--json", "--quiet"]
    told = json.loads(CliRunner().invoke(app, words).stdout)
    assert told["sets"][0]["rows"] == 120
    assert told["features"] == 8


def test_an_image_of_30000_pixels_is_skipped_and_named(at_home, tmp_path):
    folder = tmp_path / "big"
    shutil.copytree("pets/ood/black", folder)
    Image.MAX_IMAGE_PIXELS, limit = None, Image.MAX_IMAGE_PIXELS
    try:
        Image.new("1", (30_000, 30_000)).save(folder / "huge.png")
    finally:
        Image.MAX_IMAGE_PIXELS = limit
    with pytest.warns(UserWarning, match=r"1 images could not be decoded, the first: .*huge\.png: refused"):
        _, features = extract("mynet:Net", folder, weights="state.pt")
    assert len(features) == 40
