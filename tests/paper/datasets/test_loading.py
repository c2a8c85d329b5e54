"""Loading: what comes back, how subsets are labelled, and what bad files do."""

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from softscope.errors import SoftscopeError
from softscope.files import sha256
from softscope.images import load_files
from softscope.images.decoding import MAX_PIXELS
from softscope.paper.datasets import CATALOG, find, load

from .conftest import encode, noise, write_parquet


def test_digits_are_always_there_and_complete():
    train, test = load("digits", "train"), load("digits", "test")
    assert train.images.shape == (1297, 8, 8, 1)
    assert len(test) == 500
    assert train.images.max() == 255
    assert train.subset is None
    assert set(test.labels.tolist()) == set(range(10))
    assert len(train.sha256["digits"]) == 64


def test_digits_keep_the_grey_levels_of_scikit_learn():
    from sklearn.datasets import load_digits

    raw = load_digits().images[-500:]
    assert np.array_equal(np.round(load("digits", "test").images[..., 0] * (16 / 255)), raw)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_images_come_back_pixel_for_pixel(small_mnist, kind):
    images = small_mnist("train", 40, kind)
    loaded = load("mnist", "train")
    assert np.array_equal(loaded.images, images)
    assert loaded.images.dtype == np.uint8
    assert loaded.labels.tolist() == [row % 10 for row in range(40)]
    assert loaded.labels.dtype == np.int64
    assert loaded.class_names == tuple("0123456789")


def test_fewer_rows_than_the_catalogue_are_labelled_a_subset(small_mnist):
    small_mnist("train", 40)
    assert load("mnist", "train").subset == "train subset: 40 of 60,000"
    chosen = load("MNIST", "train", classes=[1, "0"])
    assert chosen.subset == "train subset: 8 of 60,000 (2 of 10 classes)"
    assert chosen.class_names == ("1", "0")
    assert chosen.labels.tolist() == [1, 0] * 4


def test_a_limit_draws_evenly_over_the_classes_and_reads_only_these(small_mnist):
    images = small_mnist("test", 40)
    loaded = load("mnist", "test", limit=20, seed=3)
    assert np.bincount(loaded.labels).tolist() == [2] * 10
    for image, label in zip(loaded.images, loaded.labels):
        assert any(np.array_equal(image, images[row]) for row in range(label, 40, 10))
    assert len(load("mnist", "test", limit=1000)) == 40


def test_the_digest_of_each_file_is_recorded(small_mnist, data_home):
    small_mnist("train")
    path = data_home / "mnist" / "train-00000-of-00001.parquet"
    assert load("mnist", "train").sha256 == {path.name: sha256(path)}


def test_several_files_are_read_in_order(data_home):
    images = noise(6, 28, 28, 1)
    for part in range(3):
        rows = slice(2 * part, 2 * part + 2)
        path = data_home / "mnist" / f"train-0000{part}-of-00003.parquet"
        write_parquet(path, [encode(image) for image in images[rows]], [part, part])
    loaded = load("mnist", "train")
    assert np.array_equal(loaded.images, images)
    assert loaded.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert np.array_equal(load("mnist", "train", classes=[2]).images, images[4:])


def test_the_hubs_other_column_names_and_plain_bytes_are_understood(tmp_path):
    images = noise(4, 8, 8, 3)
    path = write_parquet(
        tmp_path / "a.parquet", [encode(i) for i in images], [0, 1, 2, 1], columns=("img", "fine_label")
    )
    assert np.array_equal(load_files([path]).images, images)
    assert load_files([path]).class_names == ("0", "1", "2")
    table = pa.table({"image": [encode(i) for i in images], "labels": pa.array([0, 1, 2, 1], pa.int8())})
    pq.write_table(table, tmp_path / "b.parquet")
    assert np.array_equal(load_files([tmp_path / "b.parquet"]).images, images)


def test_photographs_are_resized_to_their_short_side_and_cropped_at_the_centre(tmp_path):
    wide, tall = noise(1, 40, 80, 3)[0], noise(1, 64, 32, 3)[0]
    path = write_parquet(tmp_path / "a.parquet", [encode(wide), encode(tall)], [0, 1])
    images = load_files([path], size=16)
    bicubic = Image.Resampling.BICUBIC
    left = np.asarray(Image.fromarray(wide).resize((32, 16), bicubic), dtype=int)[:, 8:24]
    top = np.asarray(Image.fromarray(tall).resize((16, 32), bicubic), dtype=int)[8:24]
    assert np.abs(images.images - np.stack([left, top])).max() <= 1
    with pytest.raises(SoftscopeError, match="32 x 64 pixels, others are 80 x 40"):
        load_files([path])


def test_large_images_go_through_worker_threads_in_order(tmp_path):
    images = noise(600, 60, 60, 3)
    path = write_parquet(tmp_path / "a.parquet", [encode(image) for image in images], [0] * 600)
    assert np.array_equal(load_files([path]).images, images)


def test_an_error_in_a_worker_thread_ends_the_load(tmp_path):
    images = [encode(image) for image in noise(600, 60, 60, 3)] + [encode(noise(1, 61, 60, 3)[0])]
    path = write_parquet(tmp_path / "a.parquet", images, [0] * 601)
    with pytest.raises(SoftscopeError, match=r"row 600 .*60 x 61 pixels"):
        load_files([path])


def test_a_corrupt_image_is_named_and_left_out_with_its_label(tmp_path):
    images = noise(5, 8, 8, 1)
    encoded = [encode(image) for image in images]
    encoded[0], encoded[3] = b"no image", encoded[3][:50]
    path = write_parquet(tmp_path / "a.parquet", [*encoded, None], [0, 1, 2, 3, 4, 5])
    with pytest.warns(UserWarning, match="3 corrupt images left out, the first: .*row 0"):
        loaded = load_files([path])
    assert np.array_equal(loaded.images, images[[1, 2, 4]])
    assert loaded.labels.tolist() == [1, 2, 4]
    assert [name.split("parquet row ")[1].split()[0] for name in loaded.skipped] == ["0", "3", "5"]
    with pytest.raises(SoftscopeError, match=r"row 0 .*corrupt image"):
        load_files([path], strict=True)


def test_a_decoded_set_is_kept_and_read_again_without_decoding(small_mnist, monkeypatch):
    images = small_mnist("train", 40)
    load("mnist", "train")
    monkeypatch.setattr("softscope.images.decoding.Decoder.decode", lambda *_: pytest.fail("decoded again"))
    assert np.array_equal(load("mnist", "train").images, images)
    chosen = load("mnist", "train", classes=[3, 1], limit=4)
    assert chosen.labels.tolist() == [label for label in chosen.labels if label in (0, 1)]
    assert all(any(np.array_equal(image, images[row]) for row in range(1, 40, 2)) for image in chosen.images)


def test_a_kept_set_is_not_used_for_other_bytes_or_another_size(small_mnist, data_home):
    small_mnist("train", 40)
    first = load("mnist", "train").images
    assert load("mnist", "train", size=14).images.shape == (40, 14, 14, 1)
    others = noise(40, 28, 28, 1, seed=9)
    path = data_home / "mnist" / "train-00000-of-00001.parquet"
    write_parquet(path, [encode(image) for image in others], [0] * 40)
    assert np.array_equal(load("mnist", "train").images, others)
    assert not np.array_equal(first, others)


def flipped(content: bytes, place: int) -> bytes:
    changed = bytearray(content)
    changed[place] ^= 1
    return bytes(changed)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"\x93NUMPY",
        lambda content: content[:-1],
        lambda content: content[:-32],
        lambda content: flipped(content, 20),
        lambda content: flipped(content, 5000),
        lambda content: flipped(content, -1),
    ],
    ids=["empty", "header", "cut", "no digest", "flipped header", "flipped pixel", "flipped digest"],
)
def test_a_damaged_kept_file_is_decoded_anew_and_replaced(small_mnist, tmp_path, damage):
    images = small_mnist("train", 40)
    load("mnist", "train")
    (kept,) = (tmp_path / "cache" / "softscope" / "decoded").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(damage(whole))
    assert np.array_equal(load("mnist", "train").images, images)
    assert kept.read_bytes() == whole


def test_a_huge_label_without_class_names_is_refused_before_anything_is_allocated(tmp_path):
    encoded = [encode(image) for image in noise(3, 8, 8, 1)]
    path = write_parquet(tmp_path / "a.parquet", encoded, [0, 20_000_000_000, 1])
    with pytest.raises(SoftscopeError, match="row 1 has label 20000000000, expected less than 100000"):
        load_files([path])


def test_a_file_without_permission_is_called_so(tmp_path, monkeypatch):
    path = write_parquet(tmp_path / "a.parquet", [encode(noise(1, 8, 8, 1)[0])], [0])

    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pyarrow.parquet.ParquetFile", forbidden)
    with pytest.raises(SoftscopeError, match=r"permission denied\. Make the file readable"):
        load_files([path])


def test_where_nothing_can_be_kept_loading_works_all_the_same(small_mnist, tmp_path, monkeypatch):
    images = small_mnist("train", 40)
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert np.array_equal(load("mnist", "train").images, images)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("softscope.images.loading.MAX_BYTES", 10)
    load("mnist", "train")
    assert not (tmp_path / "cache" / "softscope" / "decoded").exists()


def test_a_file_without_one_good_image_is_an_error(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", [b"x", b"y"], [0, 1])
    with pytest.raises(SoftscopeError, match="none of 2 images could be decoded"):
        load_files([path])
    empty = write_parquet(tmp_path / "b.parquet", [], [])
    with pytest.raises(SoftscopeError, match="none of 0 images"):
        load_files([empty])


def test_an_image_that_would_explode_in_memory_is_refused(tmp_path):
    side = int(MAX_PIXELS**0.5) + 1
    bomb = encode(np.zeros((side, side, 1), dtype=np.uint8))
    path = write_parquet(tmp_path / "a.parquet", [bomb], [0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        with pytest.raises(SoftscopeError, match="refused"):
            load_files([path])


def test_more_images_than_memory_holds_are_refused_before_they_are_read(tmp_path, monkeypatch):
    path = write_parquet(tmp_path / "a.parquet", [encode(noise(1, 8, 8, 1)[0])], [0])
    monkeypatch.setattr("os.sysconf", lambda name: 4)
    with pytest.raises(SoftscopeError, match="more than there is"):
        load_files([path], size=64)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"picture": [b"x"], "label": [0]}, "no image column; there is picture, label"),
        ({"image": [b"x"], "y": [0]}, "no label column"),
        ({"image": ["x"], "label": [0]}, "holds string, not encoded images"),
        ({"image": [{"path": "x"}], "label": [0]}, "not encoded images"),
        ({"image": [b"x"], "label": ["cat"]}, "expected whole numbers"),
        ({"image": [b"x"], "label": pa.array([None], pa.int64())}, "1 rows have no label"),
        ({"image": [b"x"], "label": [-1]}, "row 0 has label -1"),
    ],
)
def test_a_parquet_file_of_another_layout_is_refused(tmp_path, table, message):
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.raises(SoftscopeError, match=message):
        load_files([tmp_path / "a.parquet"])


def test_labels_beyond_the_class_names_are_refused(data_home):
    path = data_home / "mnist" / "test-00000-of-00001.parquet"
    write_parquet(path, [encode(noise(1, 28, 28, 1)[0])], [10], names=list("0123456789"))
    with pytest.raises(SoftscopeError, match=r"row 0 has label 10, expected 0\.\.9"):
        load("mnist", "test")
    write_parquet(path, [encode(noise(1, 28, 28, 1)[0])], [0], names=["cat", "dog"])
    with pytest.raises(SoftscopeError, match="has 2 classes, expected 10"):
        load("mnist", "test")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\x00" * 100 + b"PAR1"])
def test_a_damaged_parquet_file_is_one_clear_line(tmp_path, content):
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    with pytest.raises(SoftscopeError, match="not a whole parquet file"):
        load_files([path])


def test_a_parquet_file_cut_short_or_with_a_flipped_page_is_one_clear_line(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", [encode(i) for i in noise(50, 28, 28, 1)], [0] * 50)
    content = bytearray(path.read_bytes())
    for start in range(4, 60):
        content[start] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(SoftscopeError, match=r"a\.parquet"):
        load_files([path])


def test_unusable_metadata_counts_as_no_class_names(tmp_path):
    for number, metadata in enumerate([{"huggingface": "{"}, {"huggingface": "[]"}, {"huggingface": '{"info": 3}'}]):
        table = pa.table({"image": [encode(noise(1, 4, 4, 1)[0])], "label": [1]}).replace_schema_metadata(metadata)
        pq.write_table(table, tmp_path / f"{number}.parquet")
        assert load_files([tmp_path / f"{number}.parquet"]).class_names == ("0", "1")


def test_a_split_or_class_that_does_not_exist_is_refused(small_mnist):
    small_mnist("train")
    with pytest.raises(SoftscopeError, match="no split 'extra'"):
        load("mnist", "extra")
    with pytest.raises(SoftscopeError, match="class 'cat'"):
        load("mnist", "train", classes=["cat"])
    with pytest.raises(SoftscopeError, match="class 10"):
        load("mnist", "train", classes=[10])
    with pytest.raises(SoftscopeError, match="size 0"):
        load("mnist", "train", size=0)
    with pytest.raises(SoftscopeError, match="8 x 8"):
        load("digits", "train", size=32)
    with pytest.raises(SoftscopeError, match="no files"):
        load_files([])
    with pytest.raises(SoftscopeError, match="no such file"):
        load_files(["nowhere.parquet"])


def test_names_and_aliases_are_found_however_they_are_written():
    for name, expected in {
        "Fashion-MNIST": "fashion_mnist",
        "f.mnist": "fashion_mnist",
        "satellite": "uc_merced",
        "Cancer": "colorectal_histology",
        "pets": "oxford_pets",
        "flowers": "flowers102",
        "CIFAR-10": "cifar10",
        "c100": "cifar100",
    }.items():
        assert find(name).name == expected
    with pytest.raises(SoftscopeError, match="Did you mean cifar10"):
        find("cifra10")
    with pytest.raises(SoftscopeError, match="softscope data list"):
        find("zzzzzz")


def test_every_catalogue_entry_is_whole_and_no_name_is_taken_twice():
    known = [name for entry in CATALOG for name in (entry.name, *entry.aliases)]
    assert len(known) == len(set(known))
    for entry in CATALOG:
        assert len(set(entry.classes)) == len(entry.classes) > 1
        assert all(rows > 0 for rows in entry.splits.values())
        assert "test" in entry.splits
        assert entry.channels in (1, 3)
        assert entry.makers
        assert entry.licence
        assert entry.citation
        assert find(entry.name) is entry


def test_random_damage_to_a_parquet_file_never_gets_past_the_one_error(tmp_path, recwarn):
    path = write_parquet(tmp_path / "a.parquet", [encode(i) for i in noise(12, 8, 8, 3)], [0, 1, 2] * 4, group=5)
    whole, random = path.read_bytes(), np.random.default_rng(0)
    refused = []
    for _ in range(150):
        damaged = bytearray(whole)
        for position in random.integers(0, len(whole), size=random.integers(1, 6)):
            damaged[position] = random.integers(256)
        path.write_bytes(damaged)
        try:
            load_files([path], size=8)
        except SoftscopeError as error:
            refused.append(str(error))
    assert len(refused) > 20
    assert not any("\n" in line for line in refused)


def test_a_folder_with_braces_in_its_name_is_no_format_string(tmp_path):
    path = write_parquet(tmp_path / "{0}{x}" / "a.parquet", [b"x", encode(noise(1, 8, 8, 1)[0])], [0, 1])
    with pytest.warns(UserWarning, match=r"\{0\}\{x\}/a\.parquet row 0"):
        assert load_files([path]).labels.tolist() == [1]


def test_the_docs_list_every_data_set_with_its_rows():
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text()
    rows = {line.split("|")[1].strip(" `"): line for line in page.splitlines() if line.startswith("| `")}
    assert list(rows) == [entry.name for entry in CATALOG]
    for entry in CATALOG:
        for count in entry.splits.values():
            assert f"{count:,}" in rows[entry.name]
        assert entry.licence in rows[entry.name]
        assert str(len(entry.classes)) in rows[entry.name]
