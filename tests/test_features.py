"""What a `FeatureSet` does, whatever it was opened from."""

import io
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from softscope.engine import Engine
from softscope.errors import SoftscopeError
from softscope.features import FeatureSet
from softscope.features.parquet_files import regroup

ROWS, WIDTH = 101, 5
Z = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 4, ROWS)


def lists(z, labels=LABELS, name="label", kind=None):
    """A table with a column `z` of lists: fixed-size, or `kind` of pyarrow's list types."""
    flat = pa.array(z.ravel())
    fixed = pa.FixedSizeListArray.from_arrays(flat, z.shape[1])
    column = fixed if kind is None else fixed.cast(kind(flat.type))
    return pa.table({"z": column} | ({} if labels is None else {name: labels}))


def columns(z, labels=LABELS):
    return pa.table({f"f{i}": z[:, i] for i in range(z.shape[1])} | ({} if labels is None else {"labels": labels}))


def npz_bytes(z):
    stream = io.BytesIO()
    np.savez(stream, z=z, labels=LABELS)
    return stream.getvalue()


def npy_version_2(path, z):
    with open(path, "wb") as file:
        np.lib.format.write_array(file, z, version=(2, 0))


def folder(path, tables):
    path.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, path / f"part-{number:03}.parquet", row_group_size=13)


def cut_in_files(path, z, make=lists):
    folder(path, [make(z[a:b], LABELS[a:b]) for a, b in ((0, 40), (40, 40), (40, 41), (41, ROWS))])


WRITERS = {
    "library.safetensors": lambda path, z: save_file({"z": z, "labels": LABELS}, path),
    "own.safetensors": lambda path, z: FeatureSet(z, LABELS).save(path),
    "stored.npz": lambda path, z: np.savez(path, z=z, labels=LABELS),
    "stored_by_column.npz": lambda path, z: np.savez(path, labels=LABELS, z=np.asfortranarray(z)),
    "compressed.npz": lambda path, z: np.savez_compressed(path, z=z, labels=LABELS),
    "array.npy": lambda path, z: np.save(path, z),
    "version_2.npy": npy_version_2,
    "by_column.npy": lambda path, z: np.save(path, np.asfortranarray(z)),
    "fixed_lists.parquet": lambda path, z: pq.write_table(lists(z), path, row_group_size=13),
    "lists.parquet": lambda path, z: pq.write_table(lists(z, kind=pa.list_), path, row_group_size=17),
    "large_lists.parquet": lambda path, z: pq.write_table(lists(z, name="labels", kind=pa.large_list), path),
    "columns.parquet": lambda path, z: pq.write_table(columns(z), path, row_group_size=30),
    "folder_of_lists": cut_in_files,
    "folder_of_columns": lambda path, z: cut_in_files(path, z, columns),
    "UPPER.NPZ": lambda path, z: path.write_bytes(npz_bytes(z)),
}
every_format = pytest.mark.parametrize("name", WRITERS)


def written(folder, name, z=Z):
    WRITERS[name](folder / name, z)
    return folder / name


def in_memory(z=Z):
    return FeatureSet(z, LABELS)


# --- what every format does


@every_format
def test_a_file_gives_the_rows_and_labels_that_went_in(tmp_path, name):
    path = written(tmp_path, name)
    features = FeatureSet.open(path)
    assert (len(features), features.n_features, features.dtype, features.name) == (ROWS, WIDTH, np.float32, str(path))
    assert np.array_equal(features.array(), Z)
    if name.endswith(".npy"):
        assert features.labels is None
    else:
        assert np.array_equal(features.labels, LABELS)
        assert features.labels.dtype == np.int64
    bare = FeatureSet.open(path, labels=False)
    assert bare.labels is None
    assert np.array_equal(bare.array(), Z)


@every_format
@pytest.mark.parametrize("rows", [1, 7, 13, 100, 101, 1000, None])
def test_chunks_have_the_asked_size_cover_every_row_and_can_be_repeated(tmp_path, name, rows):
    features = FeatureSet.open(written(tmp_path, name))
    for _ in range(2):
        chunks = list(features.chunks(rows))
        assert np.array_equal(np.concatenate(chunks), Z)
        assert [len(chunk) for chunk in chunks[:-1]] == [rows or ROWS] * (len(chunks) - 1)
        assert all(chunk.dtype == np.float32 for chunk in chunks)


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "own.safetensors"])  # which refuses NaN
@pytest.mark.parametrize("first", [0, 1, 12, 13, 40, 41, 99, 100, 101])
def test_unchecked_chunks_begin_where_asked_and_hold_what_the_file_holds(tmp_path, name, first):
    z = Z.copy()
    z[43, 1], z[100, 0] = np.nan, -np.inf
    features = FeatureSet.open(written(tmp_path, name, z))
    for holes in (False, True):
        chunks = list(features.unchecked_chunks(7, first=first, holes=holes))
        assert [len(chunk) for chunk in chunks[:-1]] == [7] * (len(chunks) - 1)
        assert np.array_equal(np.concatenate([Z[:0], *chunks]), z[first:], equal_nan=True)


@pytest.mark.parametrize("first", [-1, ROWS + 1])
def test_chunks_from_a_row_that_is_not_there_are_refused(first):
    with pytest.raises(SoftscopeError, match=f"features: there is no row {first}"):
        in_memory().unchecked_chunks(first=first)


@every_format
def test_the_stamp_names_every_file_and_changes_with_it(tmp_path, name):
    path = written(tmp_path, name)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    stamp = FeatureSet.open(path).stamp()
    filled = [file for file in files if file.name != "part-001.parquet"]  # the empty one
    assert [(where, size) for where, size, _ in stamp] == [(str(file), file.stat().st_size) for file in filled]
    assert FeatureSet.open(path).stamp() == stamp
    os.utime(files[0], ns=(1, 1))
    assert FeatureSet.open(path).stamp() != stamp
    assert in_memory().stamp() == []


@every_format
def test_rows_are_gathered_in_any_order_with_repeats_by_slice_and_by_mask(tmp_path, name):
    features = FeatureSet.open(written(tmp_path, name))
    for wanted in ([5, 5, 100, 0, 41, 40, 39], [], [7], range(3, 60, 4), slice(None), slice(90, 3, -7), Z[:, 0] > 0.5):
        numbers = np.array(wanted, int) if isinstance(wanted, list) else wanted
        assert np.array_equal(features.rows(wanted), Z[numbers])
        assert features.rows(wanted).dtype == np.float32
    taken = features.take(Z[:, 0] > 0.5)
    assert np.array_equal(taken.array(), Z[Z[:, 0] > 0.5])
    assert taken.labels is None or np.array_equal(taken.labels, LABELS[Z[:, 0] > 0.5])


@given(indices=st.lists(st.integers(0, ROWS - 1), max_size=30), rows=st.integers(1, 120))
@example(indices=[100, 0], rows=1)
def test_any_rows_come_back_from_any_cut(tmp_path_factory, indices, rows):
    path = tmp_path_factory.getbasetemp() / "any"
    if not path.exists():
        cut_in_files(path, Z)
    features = FeatureSet.open(path)
    assert np.array_equal(features.rows(indices), Z[np.array(indices, int)])
    assert np.array_equal(np.concatenate(list(features.chunks(rows))), Z)


@every_format
@pytest.mark.parametrize(("stored", "read"), [(np.float16, np.float32), (np.float64, np.float64)])
def test_half_precision_is_widened_and_double_precision_kept(tmp_path, name, stored, read):
    z = Z.astype(stored)
    if stored == np.float16 and "lists" in name and "fixed" not in name and "folder" not in name:
        z = z.astype(np.float32)  # arrow can't cast lists of halffloat
    features = FeatureSet.open(written(tmp_path, name, z))
    assert features.dtype == read
    assert features.rows([3]).dtype == read
    assert all(chunk.dtype == read for chunk in features.chunks())
    assert np.array_equal(features.array(), z.astype(read))


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "own.safetensors"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_first_row_that_is_not_finite_is_named_with_the_file(tmp_path, name, value):
    z = Z.copy()
    z[[77, 90], 2] = value
    features = FeatureSet.open(written(tmp_path, name, z))
    for read in (lambda: list(features.chunks(10)), features.array, lambda: features.rows([3, 77, 5])):
        with pytest.raises(SoftscopeError, match=rf"{name}: z: row 77 holds {value}, expected finite"):
            read()
    assert np.array_equal(features.rows(slice(0, 77)), Z[:77])
    with pytest.raises(SoftscopeError, match="row 77"):
        features.save(tmp_path / "copy.safetensors")
    assert not list(tmp_path.glob("*copy*"))


@every_format
def test_a_copy_is_a_safetensors_file_that_the_library_reads(tmp_path, name):
    path = tmp_path / "new" / "copy.safetensors"
    FeatureSet.open(written(tmp_path, name)).save(path)
    theirs = load_file(path)
    assert np.array_equal(theirs["z"], Z)
    assert "labels" not in theirs if name.endswith(".npy") else np.array_equal(theirs["labels"], LABELS)
    assert np.array_equal(FeatureSet.open(path).array(), Z)


@every_format
def test_an_opened_set_can_be_sent_to_another_process(tmp_path, name):
    opened = FeatureSet.open(written(tmp_path, name))
    for read in Engine(workers=2).map(FeatureSet.array, [opened, opened]):
        assert np.array_equal(read, Z)


@every_format
def test_a_file_that_changes_after_it_was_opened_is_noticed(tmp_path, name):
    path = written(tmp_path, name)
    features = FeatureSet.open(path)
    part = sorted(path.iterdir())[-1] if path.is_dir() else path
    os.utime(part, ns=(1, 1))
    for read in (lambda: list(features.chunks()), lambda: features.rows([ROWS - 1])):
        with pytest.raises(SoftscopeError, match=r"has changed since it was opened. Open it again"):
            read()
    part.unlink()
    with pytest.raises(SoftscopeError, match=r"can't be read \(No such file or directory\)"):
        features.array()


def test_a_set_may_be_saved_over_the_file_it_is_read_from(tmp_path):
    path = written(tmp_path, "own.safetensors")
    FeatureSet.open(path).take(slice(0, 7)).save(path)
    again = FeatureSet.open(path)
    again.save(path)
    assert np.array_equal(FeatureSet.open(path).array(), Z[:7])


# --- in memory


def test_an_array_in_memory_is_neither_copied_nor_read_at_construction():
    features = in_memory()
    assert np.shares_memory(features.array(), Z)
    assert all(np.shares_memory(chunk, Z) for chunk in features.chunks(10))
    assert np.array_equal(features.rows([3, 1]), Z[[3, 1]])
    assert repr(features) == "FeatureSet(features: 101 rows, 5 features, labels, float32)"
    assert "no labels" in repr(FeatureSet(Z))


def test_an_array_in_memory_that_is_not_finite_is_named():
    z = Z.copy()
    z[9, 1] = np.nan
    with pytest.raises(SoftscopeError, match=r"mine: z: row 9 holds nan"):
        FeatureSet(z, name="mine").array()


def test_labels_must_fit_rows_and_classes():
    with pytest.raises(SoftscopeError, match=r"features: labels: 3 labels for 101 rows"):
        FeatureSet(Z, [0, 1, 2])
    with pytest.raises(SoftscopeError, match=r"features: labels: row \d+ has label 3, expected 0\.\.2"):
        in_memory().check_labels(3)
    in_memory().check_labels(4)
    FeatureSet(Z).check_labels(1)


def test_metadata_survives_a_file_and_must_be_text(tmp_path):
    metadata = {"dataset": "fashion <mnist>", "model": "猫", "layer": "fc"}
    FeatureSet(Z, LABELS, metadata=metadata).save(tmp_path / "x.safetensors")
    opened = FeatureSet.open(tmp_path / "x.safetensors")
    assert opened.metadata == opened.take([0]).metadata == metadata
    with pytest.raises(SoftscopeError, match=r"metadata 'epoch' is 3, expected text. Use str"):
        FeatureSet(Z, metadata={"epoch": 3})


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([0, ROWS], "there is no row 101. Give numbers in 0..100"),
        ([-1], "there is no row -1"),
        ([0.5], "type float64"),
        ([[0, 1]], r"shape \(1, 2\)"),
        (3, r"shape \(\)"),
        ([True, False], "mask of 101 booleans"),
        (["a"], "type <U1"),
        ([[0], [1, 2]], "row numbers: is not an array of numbers"),
    ],
)
def test_rows_that_are_not_there_are_refused(indices, message):
    with pytest.raises(SoftscopeError, match=message):
        in_memory().rows(indices)


def test_chunks_hold_at_least_a_row_and_a_set_is_never_empty():
    for rows in (0, -1):
        with pytest.raises(SoftscopeError, match=f"chunks of {rows} rows"):
            list(in_memory().chunks(rows))
    with pytest.raises(SoftscopeError, match="is empty"):
        in_memory().take([])


def test_a_set_larger_than_memory_is_not_gathered_whole(tmp_path, monkeypatch):
    features = FeatureSet.open(written(tmp_path, "own.safetensors"))

    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr("softscope.features.feature_set.np.empty", full)
    with pytest.raises(SoftscopeError, match=r"more than memory holds. Go through it with chunks"):
        features.array()


@given(cuts=st.lists(st.integers(0, 30), max_size=9), size=st.integers(1, 40))
def test_regrouped_pieces_keep_every_row_in_order(cuts, size):
    rows = np.arange(sum(cuts))[:, None]
    blocks = list(regroup(np.split(rows, np.cumsum(cuts)[:-1]) if cuts else [], size))
    assert [len(block) for block in blocks[:-1]] == [size] * (len(blocks) - 1)
    assert np.array_equal(np.concatenate([rows[:0], *blocks]), rows)


# --- parquet


def test_a_column_named_z_of_numbers_is_one_feature(tmp_path):
    pq.write_table(pa.table({"z": Z[:, 0], "label": LABELS}), tmp_path / "x.parquet")
    assert np.array_equal(FeatureSet.open(tmp_path / "x.parquet").array(), Z[:, :1])


def test_columns_of_mixed_precision_become_the_widest(tmp_path):
    table = pa.table({"a": Z[:, 0].astype(np.float16), "b": Z[:, 1], "c": Z[:, 2].astype(float)})
    pq.write_table(table, tmp_path / "x.parquet")
    features = FeatureSet.open(tmp_path / "x.parquet")
    assert features.dtype == np.float64
    assert np.array_equal(features.array()[:, 1], Z[:, 1].astype(float))


def test_other_columns_beside_a_column_of_lists_are_left_alone(tmp_path):
    pq.write_table(lists(Z).append_column("path", pa.array([str(i) for i in range(ROWS)])), tmp_path / "x.parquet")
    assert np.array_equal(FeatureSet.open(tmp_path / "x.parquet").array(), Z)


def test_whatever_people_pass_becomes_a_feature_set(tmp_path):
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    given = FeatureSet(rows, [0, 1, 0])
    given.save(tmp_path / "z.safetensors")
    assert FeatureSet.of(given) is given
    for same in (rows, rows.tolist(), [[0, 1], [2, 3], [4, 5]], tuple(rows), str(tmp_path / "z.safetensors")):
        np.testing.assert_array_equal(FeatureSet.of(same).array(), rows)
    assert FeatureSet.of(tmp_path / "z.safetensors").labels.tolist() == [0, 1, 0]
    pair = FeatureSet.of((rows, [0, 1, 0]), "train")
    assert (pair.labels.tolist(), pair.name) == ([0, 1, 0], "train")
    assert FeatureSet.of((rows[0], rows[1])).labels is None  # two rows, not a row and its labels


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_tensors_are_detached_silently(kind):
    torch = pytest.importorskip("torch")
    z = torch.arange(6.0).reshape(3, 2).to(getattr(torch, kind)).requires_grad_()
    features = FeatureSet.of((z * 1, torch.tensor([2, 0, 1])))
    assert features.array().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert features.labels.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (None, "z: expected float32 or float64, found object"),
        ([[1.0], [1.0, 2.0]], "z: is not an array of numbers"),
        (np.zeros(3), "expected a matrix of rows x features"),
        ("no-such-file.npy", "no-such-file.npy"),
        ({"a": 1}, "z: expected float32 or float64, found object"),
        ((np.zeros((2, 2)), [0]), "1 labels for 2 rows"),
    ],
)
def test_what_is_not_features_is_refused_in_one_line(given, what):
    with pytest.raises(SoftscopeError, match=what):
        FeatureSet.of(given)
