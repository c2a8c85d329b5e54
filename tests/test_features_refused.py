"""What `FeatureSet.open` refuses, and that damaged files never get past it: SoftscopeError or finite rows."""

import io
import pickle
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save, save_file

from softscope.errors import SoftscopeError
from softscope.features import FeatureSet

Z = np.random.default_rng(0).normal(size=(101, 5)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 4, 101)


def lists(z, labels=LABELS, kind=None):
    flat = pa.array(z.ravel())
    fixed = pa.FixedSizeListArray.from_arrays(flat, z.shape[1])
    column = fixed if kind is None else fixed.cast(kind(flat.type))
    return pa.table({"z": column} | ({} if labels is None else {"label": labels}))


def columns(z, labels=LABELS):
    return pa.table({f"f{i}": z[:, i] for i in range(z.shape[1])} | {"labels": labels})


def folder(path, tables):
    path.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, path / f"part-{number:03}.parquet")


def npy_bytes(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def npz_with(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def long_npy(shape, dtype="<f4"):
    """A header that promises `shape`, and no data."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue()


OBJECTS = np.array([[{}, None]], dtype=object)
DAY = np.datetime64("2021-06-09")
REFUSED = {
    "missing.npz": (lambda p: None, "no such file or folder"),
    "notes.txt": (lambda p: p.write_text("z"), r"features in a \.txt file. Give \.safetensors, \.npz"),
    "nameless": (lambda p: p.write_text("z"), r"features in a nameless file"),
    "folder.npz": (lambda p: p.mkdir(), "a folder without a .parquet file"),
    "hidden": (lambda p: (p.mkdir(), (p / ".x.parquet").touch()), "a folder without a .parquet file"),
    "other.safetensors": (
        lambda p: save_file({"features": Z, "y": LABELS}, p),
        "expected tensors 'z' and 'labels', found features, y. Save it with FeatureSet",
    ),
    "int.safetensors": (lambda p: save_file({"z": Z.astype(int)}, p), "z: expected float32 or float64, found int64"),
    "cube.safetensors": (lambda p: save_file({"z": Z[None]}, p), r"z: expected a matrix .* \(1, 101, 5\)"),
    "empty.safetensors": (lambda p: save_file({"z": Z[:0]}, p), r"z: is empty, shape \(0, 5\)"),
    "few.safetensors": (lambda p: save_file({"z": Z, "labels": LABELS[:9]}, p), "labels: 9 labels for 101 rows"),
    "real.safetensors": (lambda p: save_file({"z": Z, "labels": Z[:, 0].copy()}, p), "expected whole-number labels"),
    "minus.safetensors": (lambda p: save_file({"z": Z, "labels": LABELS - 9}, p), "labels: row 0 has label -"),
    "other.npz": (lambda p: np.savez(p, x=Z), r"expected arrays 'z' and 'labels', found x. Save it with np.savez"),
    "none.npz": (lambda p: np.savez(p), "found nothing"),
    "objects.npz": (lambda p: np.savez(p, z=OBJECTS), "z: found an array of Python objects.*never unpickled"),
    "labels_objects.npz": (lambda p: np.savez(p, z=Z, labels=OBJECTS[0]), "labels: found an array of Python objects"),
    "objects.npy": (lambda p: np.save(p, OBJECTS), "found an array of Python objects"),
    "pickle.npy": (lambda p: p.write_bytes(pickle.dumps(Z)), "not a whole npy file"),
    "int.npz": (lambda p: np.savez_compressed(p, z=Z.astype(int)), "z: expected float32 or float64, found int64"),
    "vector.npz": (lambda p: np.savez_compressed(p, z=Z[0]), r"z: expected a matrix .* \(5,\)"),
    "empty.npz": (lambda p: np.savez_compressed(p, z=Z[:0]), r"z: is empty, shape \(0, 5\)"),
    "few.npz": (lambda p: np.savez(p, z=Z, labels=LABELS[:9]), "labels: 9 labels for 101 rows"),
    "one_hot.npz": (lambda p: np.savez(p, z=Z, labels=np.eye(4, dtype=int)[LABELS]), r"one label per row, .*argmax"),
    "by_column.npz": (lambda p: np.savez_compressed(p, z=np.asfortranarray(Z)), "is compressed column by column"),
    "no_zip.npz": (lambda p: p.write_bytes(npy_bytes(Z)), r"not a whole npz file \(File is not a zip file\)"),
    "text.npz": (lambda p: npz_with(p, z=b"hello"), "not a whole npz file"),
    "short.npz": (lambda p: npz_with(p, z=npy_bytes(Z)[:-1]), "z: shape .101, 5. of float32 needs 2020 bytes, .* 2019"),
    "long.npz": (lambda p: npz_with(p, z=npy_bytes(Z) + b"x"), "needs 2020 bytes, the file has 2021"),
    "short_labels.npz": (
        lambda p: npz_with(p, z=npy_bytes(Z), labels=npy_bytes(LABELS)[:-1]),
        r"not a whole npz file \(ends 1 bytes too early\)",
    ),
    "huge.npy": (lambda p: p.write_bytes(long_npy((10**15, 10**15))), "needs 4000000000.* bytes, the file has 0"),
    "negative.npy": (lambda p: p.write_bytes(long_npy((-5, -5))), r"not a whole npy file \(shape \(-5, -5\)\)"),
    "big_endian.npy": (lambda p: np.save(p, Z.astype(">f4")), "expected float32 or float64, found >f4"),
    "dates.npy": (lambda p: np.save(p, np.full((2, 2), DAY)), "found datetime64"),
    "version.npy": (lambda p: p.write_bytes(b"\x93NUMPY\x03\x00" + npy_bytes(Z)[8:]), r"npy version \(3, 0\)"),
    "structure.npy": (lambda p: np.save(p, np.zeros((2, 2), [("a", "f4")])), "expected float32 or float64, found"),
    "text.parquet": (lambda p: p.write_text("hello"), "not a whole parquet file"),
    "none.parquet": (lambda p: pq.write_table(lists(Z[:0], LABELS[:0]), p), r"z: is empty, shape \(0, 5\)"),
    "none_of_lists.parquet": (lambda p: pq.write_table(lists(Z[:0], None, kind=pa.list_), p), "z: is empty"),
    "no_columns.parquet": (
        lambda p: pq.write_table(pa.table({"label": LABELS}), p),
        "expected a column 'z' of lists or a float column per feature, found label",
    ),
    "ints.parquet": (lambda p: pq.write_table(lists(Z.astype(int)), p), "z: expected float32 or float64, found int64"),
    "int_column.parquet": (
        lambda p: pq.write_table(columns(Z).append_column("id", pa.array(LABELS)), p),
        r"column 'id': expected float32 or float64, found int64. Cast the column, or drop it",
    ),
    "text_column.parquet": (lambda p: pq.write_table(pa.table({"a": ["x"]}), p), "column 'a': .* found string"),
    "both.parquet": (
        lambda p: pq.write_table(lists(Z).append_column("labels", pa.array(LABELS)), p),
        "found both columns 'label' and 'labels', expected one",
    ),
    "twice.parquet": (
        lambda p: pq.write_table(columns(Z).rename_columns(list("aabcde")), p),
        "two columns of one name",
    ),
    "real_labels.parquet": (lambda p: pq.write_table(lists(Z, Z[:, 0]), p), "label: expected whole-number labels"),
    "null_label.parquet": (
        lambda p: pq.write_table(pa.table({"a": [1.0, 2.0], "label": [3, None]}), p),
        r"null_label.parquet: label: row 1 is missing \(null\)",
    ),
    "names.parquet": (lambda p: pq.write_table(lists(Z, [*"ab"] * 50 + ["c"]), p), "label: .* labels, found string"),
    "flags.parquet": (lambda p: pq.write_table(lists(Z, LABELS > 1), p), "label: .* labels, found bool"),
    "categories.parquet": (
        lambda p: pq.write_table(lists(Z, pa.array([*"ab"] * 50 + ["c"]).dictionary_encode()), p),
        "label: expected whole-number labels, found dictionary",
    ),
    "minus.parquet": (lambda p: pq.write_table(lists(Z, LABELS - 9), p), "label: row 0 has label -"),
    "ragged_first.parquet": (lambda p: pq.write_table(pa.table({"z": [None, [1.0]]}), p), "z: row 0 is missing"),
    "widths": (
        lambda p: folder(p, [lists(Z), lists(Z[:, :3])]),
        "part-001.parquet: found lists of 3 of float32, labels in 'label', expected lists of 5 .* as in part-000",
    ),
    "dtypes": (lambda p: folder(p, [lists(Z), lists(Z.astype(float))]), "found lists of 5 of float64"),
    "labelled": (lambda p: folder(p, [lists(Z), lists(Z, None)]), "found lists of 5 of float32, no labels"),
    "names": (
        lambda p: folder(p, [columns(Z), columns(Z).rename_columns([*"abcde", "labels"])]),
        "part-001.parquet: found 5 columns a, b, c .* of float32, labels in 'labels', expected 5 columns f0, f1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_feature_file_is_refused_with_file_tensor_found_and_expected(tmp_path, name):
    write, message = REFUSED[name]
    write(tmp_path / name)
    with pytest.raises(SoftscopeError, match=message) as caught:
        FeatureSet.open(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


REFUSED_ROWS = {
    "ragged": ({"z": [[1.0, 2.0], [1.0], [3.0, 4.0]]}, "z: row 1 has 1 values, expected 2"),
    "missing list": ({"z": [[1.0, 2.0], [2.0, 3.0], None]}, "z: row 2 is missing"),
    "missing value in a list": ({"z": [[1.0, 2.0], [2.0, None]]}, "z: row 1 is missing"),
    "missing value in a column": ({"a": [1.0, 2.0, None], "b": [1.0, 2.0, 3.0]}, "column 'a': row 2 is missing"),
}


@pytest.mark.parametrize("name", REFUSED_ROWS)
@pytest.mark.parametrize("group", [1, 100])
def test_rows_that_miss_values_are_named_when_they_are_read(tmp_path, name, group):
    table, message = REFUSED_ROWS[name]
    pq.write_table(pa.table(table), tmp_path / "x.parquet", row_group_size=group)
    features = FeatureSet.open(tmp_path / "x.parquet")
    for read in (features.array, lambda: features.rows([0, len(features) - 1, 1])):
        with pytest.raises(SoftscopeError, match=f"x.parquet: {message}"):
            read()


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
@pytest.mark.parametrize("group", [1, 100])
def test_with_holes_rows_that_miss_values_are_nan_and_the_others_whole(tmp_path, kind, group):
    rows = [[1.0, 2.0], None, [3.0], [4.0, None], [], [5.0, 6.0, 7.0], [8.0, 9.0]]
    pq.write_table(pa.table({"z": pa.array(rows, kind(pa.float32()))}), tmp_path / "x.parquet", row_group_size=group)
    features = FeatureSet.open(tmp_path / "x.parquet")
    read = np.concatenate(list(features.unchecked_chunks(2, holes=True)))
    nan = np.nan
    expected = [[1, 2], [nan, nan], [nan, nan], [4, nan], [nan, nan], [nan, nan], [8, 9]]
    assert np.array_equal(read, np.array(expected, np.float32), equal_nan=True)
    with pytest.raises(SoftscopeError, match="row 1 is missing"):
        list(features.unchecked_chunks(2))


@pytest.mark.parametrize(
    "table",
    [
        {"z": pa.array([[1.0, 2.0], None, [3.0, None]], pa.list_(pa.float64(), 2))},
        {"a": [1.0, None, 3.0], "b": [2.0, None, None]},
    ],
)
def test_with_holes_missing_fixed_lists_and_columns_are_nan_too(tmp_path, table):
    pq.write_table(pa.table(table), tmp_path / "x.parquet")
    rows = np.concatenate(list(FeatureSet.open(tmp_path / "x.parquet").unchecked_chunks(holes=True)))
    assert np.array_equal(rows, [[1, 2], [np.nan, np.nan], [3, np.nan]], equal_nan=True)


def test_a_compressed_member_whose_bytes_are_wrong_is_noticed(tmp_path):
    content = npy_bytes(np.tile(Z, (100, 1)))  # more than the first read, which opening it does
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("z.npy", content)
        archive.infolist()[0].CRC ^= 1
    features = FeatureSet.open(tmp_path / "x.npz")
    with pytest.raises(SoftscopeError, match=r"x.npz: not a whole npz file \(Bad CRC-32"):
        features.array()


# --- damaged files


def parquet_bytes(table, **options):
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=10, **options)
    return stream.getvalue()


def npz_bytes(write):
    stream = io.BytesIO()
    write(stream, z=Z[:23], labels=LABELS[:23])
    return stream.getvalue()


WHOLE = {
    "x.safetensors": save({"z": Z[:23], "labels": LABELS[:23]}, {"model": "m"}),
    "x.npy": npy_bytes(Z[:23]),
    "x_by_column.npy": npy_bytes(np.asfortranarray(Z[:23])),
    "x.npz": npz_bytes(np.savez),
    "x_compressed.npz": npz_bytes(np.savez_compressed),
    "x.parquet": parquet_bytes(lists(Z[:23], LABELS[:23])),
    "x_lists.parquet": parquet_bytes(lists(Z[:23], LABELS[:23], kind=pa.list_), compression=None),
    "x_columns.parquet": parquet_bytes(columns(Z[:23], LABELS[:23]), compression="zstd"),
}


def read_everything(path):
    """Every way to the rows of `path`; whatever was given must be finite and fit together."""
    features = FeatureSet.open(path)
    whole = np.concatenate(list(features.chunks(5)))
    assert np.isfinite(whole).all()
    assert whole.shape == (len(features), features.n_features)
    assert np.array_equal(features.rows([len(features) - 1, 0]), whole[[-1, 0]])
    assert features.labels is None or (len(features.labels) == len(features) and features.labels.min() >= 0)


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=60)
@given(data=st.data())
def test_flipped_bytes_give_an_error_or_finite_rows(tmp_path, name, data):
    content = bytearray(WHOLE[name])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / name).write_bytes(content)
    refused = ""
    try:
        read_everything(tmp_path / name)
    except SoftscopeError as error:
        refused = str(error)
    assert not refused or name in refused


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=60)
@given(data=st.data())
def test_a_truncated_file_is_always_refused(tmp_path, name, data):
    content = WHOLE[name]
    (tmp_path / name).write_bytes(content)
    read_everything(tmp_path / name)
    (tmp_path / name).write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(SoftscopeError, match=name):
        FeatureSet.open(tmp_path / name)
