"""What campaigns once found, a test each: these stay refused in one line, quickly, and nothing is allocated for them.

What belongs to one room is tested there; here is what any room could bring back.
"""

import ast
import io
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import softscope
from softscope import Density, FeatureSet, Guard, Head, diagnose, report
from softscope.errors import SoftscopeError

from .campaign import FORMATS, outcome
from .formats import edited_json, onnx_file, sound_guard, zip_member

SOURCE = Path(softscope.__file__).parent
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
HEAD = Head(np.eye(3, 4, dtype=np.float32))


def draw(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(rows) % 3
    noise = np.random.default_rng(seed).normal(size=(rows, 4))
    return (3 * np.eye(3, 4)[labels] + noise).astype(np.float32), labels


@pytest.mark.parametrize("format_", [each for each in FORMATS if each.opened], ids=lambda format_: format_.name)
def test_a_pipe_in_place_of_a_file_is_refused_at_once(format_, tmp_path):
    path = format_.make(tmp_path)
    path.unlink()
    os.mkfifo(path)
    assert outcome(format_, path) is None


def test_labels_that_unpack_to_gigabytes_are_refused_before_they_are(tmp_path):
    z, labels = draw(30)
    np.savez_compressed(tmp_path / "z.npz", z=z, labels=labels)
    header = np.lib.format.header_data_from_array_1_0(labels) | {"shape": (600_000_000,)}
    with open(tmp_path / "header", "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    claims = (tmp_path / "header").read_bytes() + labels.tobytes()
    (tmp_path / "z.npz").write_bytes(zip_member((tmp_path / "z.npz").read_bytes(), "labels.npy", claims))
    with pytest.raises(SoftscopeError, match="labels"):
        FeatureSet.open(tmp_path / "z.npz")


def finite_or_refused(work) -> bool:
    try:
        values = work()
    except SoftscopeError as error:
        return "\n" not in str(error)
    return bool(np.isfinite(values).all())


@pytest.mark.parametrize("scale", [1e18, 1e22, 1e30, 1e37])
def test_training_values_of_any_size_are_fitted_or_refused(scale):
    z, labels = draw(90)
    train, test = z * np.float32(scale), draw(60, 1)[0] * np.float32(scale)

    def area():
        diagnosis = diagnose(HEAD, (train, labels), (test, labels[:60]), {"far": -train[:50]}, bootstraps=20)
        return diagnosis.scores["far"]["density"].auroc.value

    assert finite_or_refused(area)


@pytest.mark.parametrize("covariance", ["full", "tied", "diagonal", "spherical"])
@pytest.mark.parametrize(
    "change",
    [
        lambda z: z * 0,
        lambda z: z * 0 + 7,
        lambda z: np.where(np.arange(len(z))[:, None] == 0, 1e30, z),
        lambda z: z * np.array([1, 1e-30, 1e30, 0]),
        lambda z: z[:3],
        lambda z: z[:1],
    ],
    ids=["zeros", "constant", "one huge row", "scales apart", "a row per class", "one row"],
)
def test_a_density_of_degenerate_rows_is_fitted_or_refused(covariance, change):
    z, labels = draw(60)
    rows = FeatureSet(change(z).astype(np.float32), labels[: len(change(z))])
    assert finite_or_refused(lambda: Density(covariance=covariance).fit(HEAD, rows).uncertainty(z))


@pytest.mark.parametrize(
    "line",
    [
        "tune --head h --train t --test t -o o --seed -1",
        "tune --head h --train t --test t -o o --seed 4294967296000000000000",
        "diagnose --head h --train t --test t --ood a=t -o o --seed -1",
        "diagnose --head h --train t --test t --ood a=t -o o --seed 99999999999999999999",
        "guard fit --head h --train t --calibration t -o o --false-alarms 1e-320",
        "guard fit --head h --train t --calibration t -o o --false-alarms nan",
        "guard score g t -o o --batch 0",
        "score t --guard g -o o --workers 0",
        "extract m d -o o --batch -1",
        "filter m --top 0",
        "filter m --top 100000000000",
        "watch g t --picture evidence.npy",
    ],
)
def test_a_number_that_no_option_takes_is_one_line_before_any_file_is_opened(line, tmp_path, monkeypatch, capsys):
    from softscope import cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["softscope", *line.split()])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert line.split()[-2] in shown or line.split()[-1] in shown
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed", [-1, 2**32, 2**63])
def test_a_seed_beyond_32_bits_is_refused_before_any_work(seed):
    with pytest.raises(SoftscopeError, match="seed from 0 to 4294967295"):
        diagnose(HEAD, draw(90), draw(60, 1), {"far": draw(40, 2)[0] + 2}, seed=seed)


def test_a_rate_of_false_alarms_that_no_calibration_can_keep_is_refused():
    with pytest.raises(SoftscopeError, match="false"):
        Guard.fit(HEAD, draw(90), draw(60, 1), Density(), 1e-320)


def test_names_of_files_that_are_not_utf8_are_read_and_shown(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff\x1b[2J.npy"
    with open(path, "wb") as file:
        np.save(file, draw(60)[0])
    features = FeatureSet.open(os.fsdecode(path))
    assert features.array().shape == (60, 4)
    done = subprocess.run(
        [sys.executable, "-m", "softscope", "guard", "score", path, path, "-o", "x.parquet"],
        capture_output=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SOURCE.parent)},
    )
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"\x1b" not in done.stderr


def saved(write, *given) -> bytes:
    buffer = io.BytesIO()
    write(buffer, *given)
    return buffer.getvalue()


FEATURES = saved(np.save, np.eye(60, 6, dtype=np.float32))
PNG = saved(Image.fromarray(np.zeros((8, 8), np.uint8)).save, "png")


@pytest.fixture
def folder_of_odd_names(tmp_path, monkeypatch):
    """Files whose names hold bytes that aren't UTF-8, a new line, an escape; a folder that is in itself."""
    monkeypatch.chdir(tmp_path)
    onnx_file(tmp_path)
    sound_guard().save("guard.safetensors")
    for name, content in {b"\xff\x1b[2J.npy": FEATURES, b"\xfe\n.npy": b"junk"}.items():
        place = Path("features") / os.fsdecode(name)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)
    os.symlink(".", "features/again")
    for name, content in {b"\xff/\x1b[2J.png": PNG, b"a/\xfe\n.png": b"junk", b"a/b.png": PNG}.items():
        place = Path("images") / os.fsdecode(name)
        place.parent.mkdir(exist_ok=True, parents=True)
        place.write_bytes(content)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "score features --guard guard.safetensors --workers 1 -q -o \udcff",
        "extract m.onnx images --mean 0 --std 1 -q -o \udcff",
        "guard score guard.safetensors features/\udcff\x1b[2J.npy -q -o \udcff.parquet",
    ],
)
def test_names_that_no_text_can_hold_are_read_and_shown_as_escapes(folder_of_odd_names, line):
    command = [sys.executable, "-m", "softscope", *map(os.fsencode, line.split(" "))]
    strict = os.environ | {"PYTHONPATH": str(SOURCE.parent), "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(command, capture_output=True, env=strict)
    assert (done.returncode, done.stderr) in ((0, b""), (3, b""))
    assert done.stdout.replace(b"\n", b"").decode().isprintable()


def test_a_head_in_a_folder_whose_name_no_text_can_hold_is_named_in_the_report_by_escapes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("head", "train"):
        path = Path("\udcff") / f"{name}.safetensors"
        (HEAD if name == "head" else FeatureSet(*draw(60))).save(path)
    train = FeatureSet.open(Path("\udcff") / "train.safetensors")
    diagnosis = diagnose(Head.load(Path("\udcff") / "head.safetensors"), train, train, bootstraps=20)
    report(diagnosis, "report.html")
    assert r"\udcff/head.safetensors" in Path("report.html").read_text()


@pytest.mark.parametrize("name", ["os:system", "file:", "\udcff", "\x1b[2J\n"])
def test_a_parquet_file_is_written_and_read_whatever_its_folder_is_called(name, tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from softscope.images import ImageSet, load_files, write_images

    monkeypatch.chdir(tmp_path)
    folder, pixels = Path(name), np.full((3, 8, 8, 1), 7, np.uint8)
    write_images(folder / "i.parquet", ImageSet(pixels, np.arange(3), ("a", "b", "c"), "i", "test", None, {}))
    assert (load_files([folder / "i.parquet"]).images == 7).all()
    with (folder / "z.parquet").open("wb") as file:
        pq.write_table(pa.table({"z": list(np.eye(3, dtype=np.float32))}), file)
    assert (FeatureSet.open(folder / "z.parquet").array() == np.eye(3)).all()


@pytest.mark.parametrize(
    "line", ["score loop --guard guard.safetensors -o o", "score features --guard guard.safetensors -o loop"]
)
def test_a_link_to_itself_is_one_line(folder_of_odd_names, line, monkeypatch, capsys):
    from softscope import cli

    os.symlink("loop", "loop")
    monkeypatch.setattr(sys, "argv", ["softscope", *line.split()])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert capsys.readouterr().err.count("\n") == 1


def test_a_damaged_onnx_file_is_refused_before_onnxruntime_prints_anything(tmp_path, capfd):
    from softscope.models import extract

    path = onnx_file(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"Relu", b"R\xf8lu"))
    with pytest.raises(SoftscopeError, match="not an ONNX model that runs"):
        extract(str(path), np.zeros((4, 1, 8, 8), np.float32))
    assert capfd.readouterr() == ("", "")


def test_a_small_onnx_file_can_not_ask_for_more_than_half_of_the_memory(tmp_path, monkeypatch):
    import onnx
    from onnx import helper, numpy_helper

    from softscope.models import extract

    model = onnx.load(onnx_file(tmp_path))
    model.graph.initializer.append(numpy_helper.from_array(np.array([1 << 31]), "size"))
    for number, (kind, inputs, output) in enumerate(
        [("ConstantOfShape", ["size"], "much"), ("ReduceSum", ["much"], "little"), ("Add", ["flat", "little"], "flat2")]
    ):
        keep = {"keepdims": 0} if kind == "ReduceSum" else {}
        model.graph.node.insert(1 + number, helper.make_node(kind, inputs, [output], **keep))
    model.graph.node[4].input[0] = "flat2"
    onnx.save(model, tmp_path / "large.onnx")
    script = (
        "import sys, numpy as np; from softscope import models, arrays; from softscope.models import onnx\n"
        "onnx.memory_bytes = lambda: 4 << 30\n"
        "models.extract(sys.argv[1], np.zeros((4, 1, 8, 8), np.float32))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "large.onnx")], capture_output=True, text=True)
    assert "SoftscopeError: large.onnx: out of memory" in done.stderr
    head, _ = extract(str(tmp_path / "m.onnx"), np.zeros((4, 1, 8, 8), np.float32))
    assert head.n_classes == 3


def test_images_that_unpack_to_hundreds_of_times_their_file_are_refused(tmp_path):
    from softscope.images import open_images

    with (
        zipfile.ZipFile(tmp_path / "i.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("images.npy", "w") as file,
    ):
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (600, 1000, 1000)})
        for _ in range(600):
            file.write(bytes(10**6))
    with pytest.raises(SoftscopeError, match=r"would unpack to 0\.6 GiB"):
        open_images(tmp_path / "i.npz")


def test_a_diagnosis_with_a_share_above_one_is_refused_before_it_is_drawn(tmp_path):
    (format_,) = (each for each in FORMATS if each.name == "diagnosis.json")
    path = format_.make(tmp_path)

    def change(value):
        value["curves"]["far"]["density"]["caught"][3] = 2.0**64

    path.write_bytes(edited_json(path.read_bytes(), change))
    with pytest.raises(SoftscopeError, match="ROC curve with shares"):
        format_.use(path)


@pytest.mark.parametrize(
    ("reader", "homes"),
    [
        ("json.load", {"canonical.py", "paper/claims/evidence.py"}),  # the second one reads what the wheel brings
        ("pickle.load", set()),
        ("np.load", {"images/sources.py"}),
        ("onnx.load", {"models/onnx.py"}),
        ("torch.load", {"models/weights.py", "paper/nets/pretrained.py"}),
        ("pq.ParquetFile", {"features/parquet_files.py", "images/parquet.py"}),
        ("pq.read_table", {"guard/parts.py"}),
    ],
)
def test_what_others_wrote_is_read_in_few_places(reader, homes):
    used = {path for path in SOURCE.rglob("*.py") if re.search(rf"(?<!\w){re.escape(reader)}s?\(", path.read_text())}
    assert {str(path.relative_to(SOURCE)) for path in used} == homes


def imported() -> set[str]:
    """The top-level packages that modules of the core import, outside functions and type checking too."""
    names = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"softscope"}


def test_every_package_that_is_imported_is_declared_and_the_core_has_upper_bounds():
    project = tomllib.loads(PROJECT.read_text())["project"]
    optional = [line for lines in project["optional-dependencies"].values() for line in lines]
    declared = {
        re.split(r"[\[<>=! ]", line)[0].lower().replace("-", "_") for line in project["dependencies"] + optional
    }
    distributions = {"sklearn": "scikit_learn", "PIL": "pillow", "prometheus_client": "prometheus_client"}
    # With numba and with matplotlib; a user's own model.
    brought = {"llvmlite", "cycler", "torchvision"}
    missing = {name for name in imported() if distributions.get(name, name).lower() not in declared} - brought
    assert missing == set()
    # pyarrow and pillow number by the calendar or raise their major version every year: a bound would only age.
    unbounded = {line for line in project["dependencies"] if "<" not in line}
    assert {re.split(r"[<>=]", line)[0] for line in unbounded} <= {"pyarrow", "pillow"}
