"""Inputs and outputs in a store: an S3-compatible server on loopback, and a file system of fsspec."""

import json

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from softscope.engine import Engine
from softscope.errors import SoftscopeError
from softscope.scoring import score

HERE = Engine(workers=1)
KEYS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(scope="module")
def server():
    """moto's S3, started in this process; the module's tests talk to it as to any other."""
    made = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    made.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        place = f"http://127.0.0.1:{made.get_host_and_port()[1]}"
        patch.setenv("AWS_ENDPOINT_URL", place)
        store = fs.S3FileSystem(endpoint_override=place, region="us-east-1", allow_bucket_creation=True)
        store.create_dir("scores")
        yield store
    made.stop()


@pytest.fixture
def uploaded(server, inputs):
    server.create_dir("scores/in")
    fs.copy_files(str(inputs.folder), "scores/in", destination_filesystem=server)
    yield "s3://scores/in"
    server.delete_dir_contents("scores")


def table(store, out):
    return pq.read_table(out, filesystem=store).to_pydict()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.apart)])
def test_a_store_is_read_and_written_like_a_folder_and_a_broken_run_goes_on(
    world, inputs, server, uploaded, tmp_path, engine
):
    if engine == "ray":
        pytest.importorskip("ray")
    work = {"engine": Engine(engine, workers=2, progress=False), "unit_bytes": 3000}
    score(inputs.folder, world.density, tmp_path / "here", engine=HERE, unit_bytes=3000)
    first = score(uploaded, world.density, "s3://scores/out", **work)
    expected, whole = pq.read_table(tmp_path / "here").to_pydict(), table(server, "scores/out")
    root = f"{inputs.folder}/"
    assert [path.removeprefix(f"{uploaded}/") for path in whole["path"]] == [
        path.removeprefix(root) for path in expected["path"]
    ]
    assert whole["alarm"] == expected["alarm"]
    assert whole["uncertainty"] == pytest.approx(expected["uncertainty"], rel=1e-6)

    names = sorted(i.path for i in server.get_file_info(fs.FileSelector("scores/out")) if i.path.endswith("parquet"))
    assert (len(names), first.skipped) == (first.outputs, 0)
    server.delete_file(names[0])
    with server.open_input_stream(names[1]) as stream:
        damaged = bytearray(stream.read())
    damaged[100] ^= 1
    with server.open_output_stream(names[1]) as stream:
        stream.write(bytes(damaged))
    again = score(uploaded, world.density, "s3://scores/out", **work)
    assert again.skipped == first.outputs - 2
    assert table(server, "scores/out") == whole
    with server.open_input_stream("scores/out/_manifest.json") as stream:
        assert json.loads(stream.read())["rows"] == 600


@pytest.mark.slow  # pyarrow tries for some seconds
def test_a_store_that_is_not_there_is_one_line(world, monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(SoftscopeError, match=r"s3://scores/in: the store doesn't answer as it should"):
        score("s3://scores/in", world.density, "s3://scores/out", engine=HERE)


def test_options_in_an_address_are_refused_without_repeating_them(world, tmp_path):
    with pytest.raises(SoftscopeError, match="AWS_ENDPOINT_URL") as caught:
        score("s3://scores/in?secret_key=abc", world.density, tmp_path / "out", engine=HERE)
    assert "abc" not in str(caught.value)


def test_what_pyarrow_does_not_know_is_asked_of_fsspec(world, inputs):
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.put(str(inputs.folder / "b.npy"), "/in/b.npy")
    try:
        summary = score("memory://in", world.density, "memory://out", engine=HERE)
        assert summary.counted.rows == 100
        assert score("memory://in", world.density, "memory://out", engine=HERE).skipped == 1
    finally:
        for folder in ("/in", "/out"):
            memory.rm(folder, recursive=True)
