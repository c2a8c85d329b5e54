import errno
import hashlib
import json
import os
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save, save_file

from softscope import files
from softscope.errors import SoftscopeError
from softscope.files import (
    atomic_path,
    atomic_paths,
    existing,
    existing_file,
    first_line,
    output_folder,
    read_into,
    read_safetensors,
    safetensors_header,
    safetensors_preamble,
    sha256,
    stream_safetensors,
    write_bytes,
    write_json,
    write_safetensors,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def safetensors_bytes(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensor(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


# --- writing


def test_a_file_appears_whole_and_in_new_folders(tmp_path):
    write_bytes(tmp_path / "a" / "b" / "c.txt", b"whole")
    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == b"whole"
    assert names(tmp_path / "a" / "b") == ["c.txt"]


def test_the_old_content_stays_until_the_new_is_whole(tmp_path):
    target = tmp_path / "x"
    target.write_text("old")
    with atomic_path(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "real")
    (tmp_path / "dangling").symlink_to("elsewhere/new")
    write_bytes(tmp_path / "link", b"new")
    write_bytes(tmp_path / "dangling", b"made")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "real").read_bytes() == b"new"
    assert (tmp_path / "elsewhere" / "new").read_bytes() == b"made"


def test_what_is_not_a_regular_file_is_refused_and_stays(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/null")
    for name, kind in (("pipe", "device or pipe"), ("folder", "a folder"), ("device", "device or pipe")):
        with pytest.raises(SoftscopeError, match=kind):
            write_bytes(tmp_path / name, b"new")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert names(tmp_path) == ["device", "folder", "pipe"]


def test_a_circle_of_links_is_refused(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(SoftscopeError, match=r"a'?: .*links"):
        write_bytes(tmp_path / "a", b"new")


def test_files_that_belong_together_appear_together_or_not_at_all(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("old")

    def fail_late():
        with atomic_paths(one, two) as (first, second):
            first.write_text("new")
            second.write_text("new")
            raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        fail_late()
    assert (one.read_text(), names(tmp_path)) == ("old", ["one"])
    with atomic_paths(one, two) as (first, second):
        first.write_text("new")
        second.write_text("new")
    assert (one.read_text(), two.read_text(), names(tmp_path)) == ("new", "new", ["one", "two"])


def test_nothing_is_written_where_the_second_of_two_names_is_a_folder(tmp_path):
    (tmp_path / "two").mkdir()
    with pytest.raises(SoftscopeError, match="a folder"), atomic_paths(tmp_path / "one", tmp_path / "two"):
        pass
    assert names(tmp_path) == ["two"]


def test_what_a_killed_process_left_goes_with_the_next_write(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from softscope.files import atomic_path\n"
        "with atomic_path(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x")], check=False)
    (left,) = names(tmp_path)
    assert left.endswith(".part")
    alive = f".x.{files._machine()}-{os.getppid()}-0123456789ab.part"
    strange = ".x.00000000-1-0123456789ab.part"
    for name in (alive, strange, "notes.part"):
        (tmp_path / name).write_text("not ours to remove")
    write_bytes(tmp_path / "x", b"whole")
    assert names(tmp_path) == sorted([alive, strange, "notes.part", "x"])


def test_folders_made_for_work_that_failed_go_again(tmp_path):
    with pytest.raises(ValueError, match="bad"), output_folder(tmp_path / "a" / "b"):
        raise ValueError("bad")
    assert names(tmp_path) == []
    (tmp_path / "kept").mkdir()
    with pytest.raises(ValueError, match="bad"), output_folder(tmp_path / "kept"):
        raise ValueError("bad")

    def fail_late():
        with output_folder(tmp_path / "full") as folder:
            (folder / "result").write_text("done")
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        fail_late()
    assert names(tmp_path) == ["full", "kept"]


@pytest.mark.parametrize("error", [ValueError("bug"), KeyboardInterrupt(), SoftscopeError("bad input")])
def test_an_exception_while_writing_passes_and_leaves_nothing(tmp_path, error):
    target = tmp_path / "x"
    target.write_text("old")

    def write_half():
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(type(error)) as caught:
        write_half()
    assert caught.value is error
    assert names(tmp_path) == ["x"]
    assert target.read_text() == "old"


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_said_in_one_line_and_leaves_nothing(tmp_path, monkeypatch, call, code):
    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    (tmp_path / "x").write_text("old")
    monkeypatch.setattr(files.os, call, fail)
    with pytest.raises(SoftscopeError, match=r"x: the disk is full, nothing was written. Free some space"):
        write_bytes(tmp_path / "x", b"new")
    monkeypatch.undo()
    assert names(tmp_path) == ["x"]
    assert (tmp_path / "x").read_text() == "old"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_disk_that_fills_while_safetensors_are_streamed_is_said_in_one_line(tmp_path, monkeypatch):
    real = open

    def on_a_full_disk(path, mode="r", *rest, **named):
        return real("/dev/full" if "w" in mode else path, mode, *rest, **named)

    monkeypatch.setattr("builtins.open", on_a_full_disk)
    with pytest.raises(SoftscopeError, match="the disk is full"):
        stream_safetensors(tmp_path / "x", {"z": (np.dtype(np.float32), (9, 9), [np.ones((9, 9))])})
    monkeypatch.undo()
    assert names(tmp_path) == []


def test_an_unwritable_folder_is_said_in_one_line(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files.os, "open", refuse)
    with pytest.raises(SoftscopeError, match=r"x: can't be written \(Permission denied\). Choose another output path"):
        write_bytes(tmp_path / "x", b"new")


def test_a_folder_that_can_not_be_synced_does_not_undo_a_file_that_is_in_place(tmp_path, monkeypatch):
    real = files.sync

    def only_files(path):
        if path.is_dir():
            raise OSError(errno.EINVAL, "Invalid argument")
        real(path)

    monkeypatch.setattr(files, "sync", only_files)
    write_bytes(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"


def test_targets_that_can_not_be_files_are_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "full").touch()
    (tmp_path / "file").touch()
    for target in ("folder", "file/below", "n" * 300, "null\0", ""):
        with pytest.raises(SoftscopeError):
            write_bytes(tmp_path / target if target else "", b"x")
    assert names(tmp_path) == ["file", "folder"]


def test_the_file_gets_the_permissions_of_the_umask_also_when_threads_write(tmp_path):
    before = os.umask(0o027)
    try:
        threads = [threading.Thread(target=write_bytes, args=(tmp_path / str(i), b"")) for i in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o640}


def test_json_is_strict_utf8_and_ends_with_a_newline(tmp_path):
    write_json(tmp_path / "x.json", {"größe": [1.5, None, "<b>"]})
    assert (tmp_path / "x.json").read_text("utf-8").endswith("}\n")
    assert json.loads((tmp_path / "x.json").read_text("utf-8")) == {"größe": [1.5, None, "<b>"]}
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "y.json", float("nan"))
    assert names(tmp_path) == ["x.json"]


def test_sha256_is_that_of_the_bytes(tmp_path):
    (tmp_path / "x").write_bytes(b"abc" * 10**6)
    assert sha256(tmp_path / "x") == hashlib.sha256(b"abc" * 10**6).hexdigest()


# --- safetensors

ARRAYS = {
    "z": np.arange(21, dtype=np.float32).reshape(7, 3),
    "labels": np.arange(7),
    "wide": np.arange(4.0).reshape(2, 2).T,
    "half": np.ones((2, 2), np.float16),
    "flag": np.array([True, False]),
    "empty": np.ones((0, 5), np.uint8),
    "scalar": np.float64(3.5).reshape(()),
    "bytes": np.arange(5, dtype=np.uint8),
}


def test_tensors_and_metadata_come_back_and_the_library_agrees(tmp_path):
    write_safetensors(tmp_path / "x", ARRAYS, {"dataset": "é <script>"})
    tensors, metadata = read_safetensors(tmp_path / "x")
    theirs = load_file(tmp_path / "x")
    assert metadata == {"dataset": "é <script>"}
    assert set(tensors) == set(theirs) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert np.array_equal(tensors[name], array)
        assert np.array_equal(tensors[name], theirs[name])
        assert tensors[name].dtype == array.dtype


def test_streamed_tensors_are_what_the_library_reads_and_are_aligned(tmp_path):
    blocks = {
        "z": (np.dtype(np.float32), (7, 3), (ARRAYS["z"][i : i + 2] for i in range(0, 7, 2))),
        "labels": (np.dtype(np.int64), (7,), [ARRAYS["labels"]]),
        "tiny": (np.dtype(np.uint8), (3,), [np.arange(3, dtype=np.uint8)]),
    }
    stream_safetensors(tmp_path / "x", blocks, {"layer": "fc — 1"})
    theirs = load_file(tmp_path / "x")
    assert np.array_equal(theirs["z"], ARRAYS["z"])
    assert np.array_equal(theirs["labels"], ARRAYS["labels"])
    assert read_safetensors(tmp_path / "x")[1] == {"layer": "fc — 1"}
    entries, _ = safetensors_header(tmp_path / "x")
    assert all(entry.start % entry.numpy_dtype(name).itemsize == 0 for name, entry in entries.items())
    preamble = safetensors_preamble({name: block[:2] for name, block in blocks.items()}, {"layer": "fc — 1"})
    assert (tmp_path / "x").read_bytes().startswith(preamble)
    assert min(entry.start for entry in entries.values()) == len(preamble)


def test_bfloat16_is_refused_with_the_tensor_named(tmp_path):
    (tmp_path / "x").write_bytes(safetensors_bytes({"z": tensor([2], 0, 4, "BF16")}, bytes(4)))
    assert safetensors_header(tmp_path / "x")[0]["z"].dtype == "BF16"
    with pytest.raises(SoftscopeError, match=r"x: z: expected F32 or F64, found BF16. Save it as float32"):
        read_safetensors(tmp_path / "x")


HOSTILE = {
    "nothing": b"",
    "seven bytes": bytes(7),
    "no header": bytes(8),
    "header longer than the file": (10**15).to_bytes(8, "little") + b"{}",
    "header length 2^64-1": b"\xff" * 8 + b"{}",
    "no JSON": safetensors_bytes(b"{nonsense"),
    "not UTF-8": safetensors_bytes(b'{"\xff": 1}'),
    "JSON list": safetensors_bytes([]),
    "deeply nested": safetensors_bytes(b"[" * 10**6),
    "metadata no object": safetensors_bytes({"__metadata__": ["a"]}),
    "metadata no text": safetensors_bytes({"__metadata__": {"a": 1}}),
    "tensor no object": safetensors_bytes({"z": 3}),
    "tensor without dtype": safetensors_bytes({"z": {"shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
    "dtype a number": safetensors_bytes({"z": tensor([1], 0, 4, 7)}, bytes(4)),
    "negative shape": safetensors_bytes({"z": tensor([-1, -1], 0, 4)}, bytes(4)),
    "shape of true": safetensors_bytes({"z": tensor([True], 0, 4)}, bytes(4)),
    "fractional shape": safetensors_bytes({"z": tensor([1.0], 0, 4)}, bytes(4)),
    "shape null": safetensors_bytes({"z": tensor(None, 0, 4)}, bytes(4)),
    "huge shape": safetensors_bytes({"z": tensor([2**62, 4], 0, 0)}),
    "shape that wraps around 2^64": safetensors_bytes({"z": tensor([2**32, 2**32], 0, 0)}),
    "thousands of digits": safetensors_bytes(b'{"z": {"dtype": "F32", "shape": [' + b"9" * 9999 + b"]}}"),
    "shape against offsets": safetensors_bytes({"z": tensor([3], 0, 8)}, bytes(8)),
    "backward offsets": safetensors_bytes({"z": tensor([1], 4, 0, "BF16")}, bytes(4)),
    "three offsets": safetensors_bytes({"z": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}}, bytes(8)),
    "offsets beyond the file": safetensors_bytes({"z": tensor([100], 0, 400)}, bytes(8)),
    "overlap": safetensors_bytes({"a": tensor([2], 0, 8), "b": tensor([2], 4, 12)}, bytes(12)),
    "hole": safetensors_bytes({"a": tensor([1], 0, 4), "b": tensor([1], 8, 12)}, bytes(12)),
    "bytes after the last tensor": safetensors_bytes({"a": tensor([1], 0, 4)}, bytes(8)),
    "one name twice": safetensors_bytes(
        b'{"z": {"dtype":"U8","shape":[1],"data_offsets":[0,1]}, "z": {"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        bytes(1),
    ),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_safetensors_are_refused_in_one_line(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(SoftscopeError, match=r"x: not a whole safetensors file \(.+\)\. Write or copy") as caught:
        read_safetensors(tmp_path / "x")
    assert "\n" not in str(caught.value)


def test_a_header_larger_than_any_real_one_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HEADER_BYTES", 100)
    (tmp_path / "x").write_bytes(safetensors_bytes(b"{}" + b" " * 100))
    with pytest.raises(SoftscopeError, match="a header of 102 bytes, expected at most 100"):
        safetensors_header(tmp_path / "x")


@settings(max_examples=300)
@given(cut=st.integers(0, 300), flips=st.lists(st.tuples(st.integers(0, 300), st.integers(1, 255)), max_size=3))
def test_a_damaged_file_gives_an_error_or_arrays_of_the_size_of_the_file(tmp_path, cut, flips):
    content = bytearray(save({"z": ARRAYS["z"], "labels": ARRAYS["labels"]}, {"a": "b"}))
    for place, mask in flips:
        content[place % len(content)] ^= mask
    whole = len(content)
    del content[whole - cut % whole :]
    (tmp_path / "x").write_bytes(content)
    try:
        tensors, _ = read_safetensors(tmp_path / "x")
    except SoftscopeError:
        return
    assert flips or len(content) == whole
    assert sum(array.nbytes for array in tensors.values()) < len(content)


def test_a_file_that_shrinks_after_its_header_was_read_is_noticed(tmp_path):
    save_file({"z": ARRAYS["z"]}, tmp_path / "x")
    with (
        open(tmp_path / "x", "rb", buffering=0) as file,
        pytest.raises(SoftscopeError, match="ends 40 bytes too early"),
    ):
        read_into(file, np.empty(11, np.float32), os.path.getsize(tmp_path / "x") - 4, tmp_path / "x")


# --- reading


def test_what_is_not_there_or_no_file_is_said(tmp_path):
    with pytest.raises(SoftscopeError, match=r"nowhere: no such file or folder. Check the path"):
        existing(tmp_path / "nowhere")
    with pytest.raises(SoftscopeError, match="no such file or folder"):
        existing(tmp_path / "null\0")
    with pytest.raises(SoftscopeError, match="expected a file, found a folder"):
        existing_file(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SoftscopeError, match="expected a file, found a device or pipe"):
        read_safetensors(tmp_path / "pipe")
    with pytest.raises(SoftscopeError, match=r"can't be read \(File name too long\)"):
        existing(tmp_path / ("n" * 300))


def test_a_file_that_may_not_be_read_is_said(tmp_path, monkeypatch):
    save_file({"z": ARRAYS["z"]}, tmp_path / "x")

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(SoftscopeError, match=r"x: can't be read \(Permission denied\). Allow this user to read it"):
        read_safetensors(tmp_path / "x")


def test_an_error_is_its_first_line_or_its_type():
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError()) == "ValueError"
