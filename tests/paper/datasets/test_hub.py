"""The hub source, against a local server that speaks its protocol."""

import errno
import hashlib
import socket
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from softscope.errors import SoftscopeError
from softscope.paper.datasets import CATALOG, find, load
from softscope.paper.datasets import hub as hub_source
from softscope.paper.datasets.catalog import DataSet, HubFiles
from softscope.paper.datasets.hub import held_out_rows
from softscope.paper.datasets.sources import get

from .conftest import encode, noise, write_parquet
from .hub_server import COMMIT, Hub, serve

pytest.importorskip("huggingface_hub")

REPO = "makers/digits"
TRAIN, TEST = "mnist/train-00000-of-00001.parquet", "mnist/test-00000-of-00001.parquet"


def parquet(tmp_path: Path, rows: int, **layout: object) -> bytes:
    """A parquet file of noise images, labels 0, 1, .. 9, 0, .."""
    encoded = [encode(image) for image in noise(rows, 28, 28, 1, seed=rows)]
    path = write_parquet(tmp_path / "made.parquet", encoded, [row % 10 for row in range(rows)], **layout)
    return path.read_bytes()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with mnist of 60 training and 20 test rows."""
    import huggingface_hub.constants

    monkeypatch.setattr(hub_source, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Hub(REPO, {TRAIN: parquet(tmp_path, 60), TEST: parquet(tmp_path, 20), "README.md": b"hello"})
    with serve(made) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setattr(hub_source, "OFFICIAL", running.url)
        yield running


@pytest.fixture
def catalogued(monkeypatch):
    """Make `get` and `load` see an entry like mnist's, with these source and split sizes."""

    def enter(source: HubFiles, splits: dict[str, int] | None = None, **changes: object) -> DataSet:
        entry = replace(find("mnist"), sources=(source,), splits=splits or {"train": 60, "test": 20}, **changes)
        monkeypatch.setattr("softscope.paper.datasets.sources.find", lambda _: entry)
        monkeypatch.setattr("softscope.paper.datasets.folders.find", lambda _: entry)
        return entry

    return enter


def test_a_data_set_comes_from_the_hub_whole_and_says_so(hub, catalogued, data_home):
    catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="mnist"))
    assert get("mnist") == {"train": "hub", "test": "hub"}
    images = load("mnist", "train")
    assert np.array_equal(images.images, noise(60, 28, 28, 1, seed=60))
    assert images.labels.tolist() == [row % 10 for row in range(60)]
    assert images.subset is None
    written = pq.read_schema(data_home / "mnist" / "train-00000-of-00001.parquet")
    assert f"hub {REPO}@{COMMIT}" in written.metadata[b"softscope"].decode()
    assert sorted(path.name for path in (data_home / "mnist").iterdir()) == [
        ".lock",
        "test-00000-of-00001.parquet",
        "train-00000-of-00001.parquet",
    ]
    asked = len(hub.asked)
    assert get("mnist") == {"train": "present", "test": "present"}
    assert len(hub.asked) == asked


def test_only_the_missing_split_is_asked_for(hub, catalogued, small_mnist):
    small_mnist("test", 20)
    catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="mnist"))
    assert get("mnist") == {"train": "hub", "test": "present"}
    assert not any("test-00000" in path for _, path, _ in hub.asked)


def test_a_broken_connection_is_resumed_where_it_broke(hub, catalogued, monkeypatch):
    # The library goes on from the last whole chunk; its chunks of 10 MB are larger than these files.
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 500)
    hub.break_after = 1000
    catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="mnist"))
    assert get("mnist")["train"] == "hub"
    assert "bytes=1000-" in [span for method, _, span in hub.asked if method == "GET"]


def test_a_busy_hub_is_asked_again(hub, catalogued):
    hub.failures = 2
    catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="mnist"))
    assert get("mnist")["test"] == "hub"


def test_a_hub_that_stays_busy_or_unknown_to_it_is_one_clear_line(hub, catalogued, data_home):
    catalogued(HubFiles(repo="makers/nothing", revision=COMMIT, folder="mnist"))
    with pytest.raises(SoftscopeError, match=r"train and test can't be had\. hub: the hub answered 404") as caught:
        get("mnist")
    assert str(data_home / "mnist") in caught.value.hint
    assert len(hub.asked) == 1
    hub.failures = 1000
    with pytest.raises(SoftscopeError, match="hub: the hub answered 503"):
        get("mnist")
    assert "\n" not in str(caught.value)


def test_a_file_that_differs_from_its_pin_is_not_used(hub, catalogued, data_home):
    catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="mnist", files={"train": {TRAIN: "ab" * 32}, "test": {}}))
    with pytest.raises(SoftscopeError, match=rf"{TRAIN} has sha256 .*, not abababababab"):
        get("mnist")
    assert not list(data_home.rglob("*.parquet"))


def pinned(hub: Hub) -> HubFiles:
    """The source whose files and checksums are in the catalogue."""
    digests = {name: hashlib.sha256(hub.files[name]).hexdigest() for name in (TRAIN, TEST)}
    return HubFiles(REPO, COMMIT, files={"train": {TRAIN: digests[TRAIN]}, "test": {TEST: digests[TEST]}})


def test_pinned_files_come_from_any_mirror_and_no_other_file_is_asked_for(hub, catalogued, monkeypatch, tmp_path):
    monkeypatch.setattr(hub_source, "OFFICIAL", "https://huggingface.co")
    source = pinned(hub)
    hub.files["mnist/train-00001-of-00002.parquet"] = parquet(tmp_path, 40)
    catalogued(source)
    assert get("mnist") == {"train": "hub", "test": "hub"}
    assert len(load("mnist", "train")) == 60
    assert not any("train-00001" in path for _, path, _ in hub.asked)


def test_a_mirror_that_renames_the_files_gets_nothing_accepted(hub, catalogued, tmp_path, data_home):
    source = pinned(hub)
    hub.files = {f"mnist/{split}-black.parquet": parquet(tmp_path, 60) for split in ("train", "test")}
    catalogued(source)
    with pytest.raises(SoftscopeError, match="hub: the hub answered 404"):
        get("mnist")
    assert not list(data_home.rglob("*.parquet"))


def test_a_set_pinned_by_its_commit_alone_is_taken_from_the_hub_itself_only(hub, catalogued, monkeypatch):
    monkeypatch.setattr(hub_source, "OFFICIAL", "https://huggingface.co")
    catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="mnist"))
    with pytest.raises(SoftscopeError, match=r"no checksum of makers/digits is pinned.*unset HF_ENDPOINT"):
        get("mnist")
    assert hub.asked == []


def test_an_answer_for_another_commit_is_not_used(hub, catalogued):
    catalogued(HubFiles(repo=REPO, revision="f" * 40, folder="mnist"))
    with pytest.raises(SoftscopeError, match=f"the hub answered for commit {COMMIT}, not ffff"):
        get("mnist")


def test_every_hub_source_of_the_catalogue_has_a_pin():
    sources = [source for entry in CATALOG for source in entry.sources if isinstance(source, HubFiles)]
    assert sources
    for source in sources:
        assert len(source.revision) == 40
        assert all(len(digest) == 64 for digests in source.files.values() for digest in digests.values())


def test_a_silent_server_is_given_up(catalogued, monkeypatch):
    monkeypatch.setattr(hub_source, "SILENCE_SECONDS", 0.2)
    monkeypatch.setattr(hub_source, "_PAUSE_SECONDS", 0.0)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setattr(hub_source, "OFFICIAL", address)
        for source in (HubFiles(REPO, COMMIT), HubFiles(REPO, COMMIT, files={"train": {TRAIN: "ab" * 32}, "test": {}})):
            catalogued(source)
            with pytest.raises(SoftscopeError, match="hub: no answer from the hub"):
                get("mnist")


def test_a_file_that_differs_from_what_the_hub_states_is_not_used(hub, catalogued, data_home):
    hub.stated[TEST] = hashlib.sha256(b"another file").hexdigest()
    catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="mnist"))
    with pytest.raises(SoftscopeError, match=rf"^mnist: test can't be had\. hub: {REPO} {TEST} has sha256"):
        get("mnist")
    assert [path.name for path in (data_home / "mnist").glob("*.parquet")] == ["train-00000-of-00001.parquet"]


def test_a_file_without_pin_and_statement_is_not_used(hub, catalogued):
    hub.stated[TRAIN] = None
    catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="mnist"))
    with pytest.raises(SoftscopeError, match="the hub states no sha256"):
        get("mnist")


def test_whole_files_of_an_earlier_run_are_not_fetched_again(hub, catalogued, data_home):
    entry = catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="mnist"), {"train": 61, "test": 20})
    with pytest.raises(SoftscopeError, match="60 rows where there should be 61"):
        get("mnist")
    assert (data_home / "mnist" / ".download" / TRAIN).is_file()
    catalogued(entry.sources[0], {"train": 60, "test": 20})
    before = len(hub.asked)
    assert get("mnist") == {"train": "hub", "test": "hub"}
    assert not any(method == "GET" and TRAIN in path for method, path, _ in hub.asked[before:])


def test_other_folders_columns_and_class_orders_are_understood(hub, catalogued, tmp_path):
    names = [f"Class {c}" for c in "9876543210"]
    shards = {
        "data/test-00000-of-00002-abc.parquet": parquet(tmp_path, 30, names=names, columns=("img", "fine_label")),
        "data/test-00001-of-00002-def.parquet": parquet(tmp_path, 20, names=names, columns=("img", "fine_label")),
    }
    hub.files = shards
    source = HubFiles(repo=REPO, revision=COMMIT)
    catalogued(source, {"test": 50}, classes=tuple(f"class_{c}" for c in "0123456789"))
    assert get("mnist") == {"test": "hub"}
    images = load("mnist", "test")
    assert images.class_names[9] == "class_9"
    assert images.labels[:10].tolist() == list(range(9, -1, -1))


def test_a_hub_without_the_split_is_one_clear_line(hub, catalogued):
    catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="elsewhere"))
    with pytest.raises(SoftscopeError, match=r"holds no elsewhere/train-\*\.parquet"):
        get("mnist")


def test_a_set_with_one_split_is_divided_by_class_and_nothing_is_in_both(hub, catalogued):
    catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="mnist", held_out=2), {"train": 40, "test": 20})
    assert get("mnist") == {"train": "hub", "test": "hub"}
    train, test = load("mnist", "train"), load("mnist", "test")
    assert np.bincount(train.labels).tolist() == [4] * 10
    assert np.bincount(test.labels).tolist() == [2] * 10
    both = {image.tobytes() for image in train.images} & {image.tobytes() for image in test.images}
    assert not both


def test_the_division_of_a_set_covers_every_row_once():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(3), 10))
    train, test = held_out_rows(labels, 4, "train"), held_out_rows(labels, 4, "test")
    assert sorted([*train, *test]) == list(range(30))
    assert np.bincount(labels[test]).tolist() == [4, 4, 4]


def test_offline_mode_is_respected(hub, catalogued, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="mnist"))
    with pytest.raises(SoftscopeError, match="hub: HF_HUB_OFFLINE is set"):
        get("mnist")
    assert hub.asked == []


def test_a_missing_library_is_named_with_the_way_to_install_it(hub, catalogued, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="mnist"))
    with pytest.raises(SoftscopeError, match=r"hub: huggingface_hub is not installed \(pip install"):
        get("mnist")


def test_no_network_is_one_clear_line(catalogued, monkeypatch):
    monkeypatch.setattr(hub_source, "_PAUSE_SECONDS", 0.0)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(hub_source, "OFFICIAL", "http://127.0.0.1:9")
    catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="mnist"))
    with pytest.raises(SoftscopeError, match="hub: no answer from the hub"):
        get("mnist")


def test_a_full_disk_is_named(hub, catalogued, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("huggingface_hub.HfApi.hf_hub_download", full)
    catalogued(HubFiles(repo=REPO, revision=COMMIT, folder="mnist"))
    with pytest.raises(SoftscopeError, match="hub: No space left on device"):
        get("mnist")
