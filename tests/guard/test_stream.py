"""Scoring files: every row once, whatever the batch, the format and the interruptions; bad rows named or flagged."""

import errno
import fcntl
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softscope.errors import SoftscopeError
from softscope.features import FeatureSet
from softscope.guard import Guard, score_file

COLUMNS = ["row", "uncertainty", "p_value", "alarm", "predicted", "bad"]


@pytest.fixture
def source(world, tmp_path):
    """400 fresh rows in a file of their own folder."""
    (tmp_path / "in").mkdir()
    FeatureSet(world.fresh).save(tmp_path / "in" / "z.safetensors")
    return tmp_path / "in" / "z.safetensors"


def read(path):
    return pq.read_table(path).to_pydict()


def entries(folder):
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("per_class", [False, True])
def test_each_row_is_scored_once_in_order_as_the_guard_scores_it(world, source, tmp_path, per_class):
    guard = Guard.fit(world.head, world.train, world.calibration, "mahalanobis", 0.1, per_class=per_class)
    summary = score_file(guard, source, tmp_path / "out.parquet", batch=33)
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == COLUMNS
    assert json.loads(table.schema.metadata[b"classes"]) == list(world.head.classes)
    assert table.schema.metadata[b"guard"].decode() == repr(guard)
    np.testing.assert_array_equal(table["row"], np.arange(400))
    np.testing.assert_allclose(table["uncertainty"], guard.uncertainty(world.fresh), rtol=1e-12)
    np.testing.assert_allclose(table["p_value"], guard.p_values(world.fresh))
    np.testing.assert_array_equal(table["alarm"], guard.alarms(world.fresh))
    np.testing.assert_array_equal(table["predicted"], world.head.logits(world.fresh).argmax(axis=1))
    assert not np.any(table["bad"])
    alarms = int(guard.alarms(world.fresh).sum())
    assert (summary.rows, summary.bad, summary.alarms, summary.promised, summary.rate) == (
        400,
        0,
        alarms,
        0.1,
        alarms / 400,
    )
    assert (summary.expected is None) == per_class
    assert json.loads(json.dumps(summary.to_dict()))["alarms"] == alarms
    assert entries(tmp_path) == ["in", "out.parquet"]


WRITERS = {
    "z.npy": lambda path, z: np.save(path, z),
    "z.npz": lambda path, z: np.savez_compressed(path, z=z),
    "z.parquet": lambda path, z: pq.write_table(pa.table({"z": list(z)}), path, row_group_size=70),
    "c.parquet": lambda path, z: pq.write_table(pa.table({f"f{i}": z[:, i] for i in range(z.shape[1])}), path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_scored(world, guard, source, tmp_path, name):
    score_file(guard, source, tmp_path / "a.parquet", batch=150)
    WRITERS[name](tmp_path / name, world.fresh)
    score_file(guard, tmp_path / name, tmp_path / "b.parquet", batch=150)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


@pytest.mark.parametrize("batch", [31, 399, 400, 401, None])
def test_the_batch_changes_nothing_but_rounding(world, guard, source, tmp_path, batch):
    score_file(guard, source, tmp_path / "out.parquet", batch=batch)
    table = pq.read_table(tmp_path / "out.parquet")
    np.testing.assert_array_equal(table["row"], np.arange(400))
    np.testing.assert_allclose(table["uncertainty"], guard.uncertainty(world.fresh), rtol=1e-5)


def test_progress_adds_up_to_all_rows(guard, source, tmp_path):
    told = []
    score_file(guard, source, tmp_path / "out.parquet", batch=150, progress=lambda *call: told.append(call))
    assert told == [("scoring", done, 400) for done in (0, 150, 300, 400)]


def test_known_rows_raise_as_many_alarms_as_expected_and_strange_ones_more(world, guard, source, tmp_path):
    known = score_file(guard, source, tmp_path / "out.parquet")
    assert known.expected[0] <= known.alarms <= known.expected[1]
    np.save(tmp_path / "s.npy", world.strange)
    strange = score_file(guard, tmp_path / "s.npy", tmp_path / "out.parquet")
    assert strange.alarms > 5 * strange.expected[1]


# --- interruptions


class StopError(Exception):
    """Stands for whatever ends a process."""


def interrupted(guard, source, out, *, after, **options):
    """A run that ends when `after` parts are written."""
    told = []

    def interrupt(what, done, total):
        told.append(done)
        if len(told) > after:
            raise StopError

    with pytest.raises(StopError):
        score_file(guard, source, out, progress=interrupt, **options)


@settings(max_examples=8)
@given(stops=st.lists(st.integers(0, 2), min_size=1, max_size=3))
def test_however_often_it_is_interrupted_the_output_is_that_of_one_run(guard, source, tmp_path, stops):
    whole, out = tmp_path / "whole.parquet", tmp_path / "out.parquet"
    out.unlink(missing_ok=True)
    score_file(guard, source, whole, batch=60)
    for stop in stops:
        interrupted(guard, source, out, after=stop, batch=60)
        assert not out.exists()
    assert first_told(guard, source, out, batch=60) == 60 * sum(stops)
    assert out.read_bytes() == whole.read_bytes()
    assert entries(tmp_path) == ["in", "out.parquet", "whole.parquet"]


def first_told(guard, source, out, **options):
    told = []
    score_file(guard, source, out, progress=lambda what, done, total: told.append(done), **options)
    return told[0]


def test_what_was_done_is_not_done_again(guard, source, tmp_path):
    interrupted(guard, source, tmp_path / "out.parquet", after=3, batch=50)
    assert first_told(guard, source, tmp_path / "out.parquet", batch=50) == 150


def test_parts_of_another_guard_batch_or_input_are_not_taken_up(world, guard, source, tmp_path):
    out = tmp_path / "out.parquet"
    other = Guard.fit(world.head, world.train, world.calibration, false_alarms=0.1)
    interrupted(guard, source, out, after=3, batch=50)
    assert first_told(other, source, out, batch=50) == 0
    interrupted(guard, source, out, after=3, batch=50)
    assert first_told(guard, source, out, batch=40) == 0
    interrupted(guard, source, out, after=3, batch=50)
    FeatureSet(world.fresh[::-1]).save(source)
    assert first_told(guard, source, out, batch=50) == 0
    np.testing.assert_allclose(read(out)["uncertainty"], guard.uncertainty(world.fresh)[::-1], rtol=1e-5)


def test_a_damaged_part_is_scored_again(guard, source, tmp_path):
    out, parts = tmp_path / "out.parquet", tmp_path / ".out.parquet.parts"
    score_file(guard, source, tmp_path / "whole.parquet", batch=50)
    interrupted(guard, source, out, after=5, batch=50)
    (parts / "000000002.scores").write_bytes(b"PAR1 damaged")
    (parts / ".000000005.scores.abc.part").write_bytes(b"half")
    assert first_told(guard, source, out, batch=50) == 100
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


@pytest.mark.parametrize("at", [0, 31, 32, 0.1, 0.5, -1])
def test_a_part_with_any_changed_byte_is_scored_again(guard, source, tmp_path, at):
    out, part = tmp_path / "out.parquet", tmp_path / ".out.parquet.parts" / "000000002.scores"
    score_file(guard, source, tmp_path / "whole.parquet", batch=50)
    interrupted(guard, source, out, after=5, batch=50)
    content = bytearray(part.read_bytes())
    content[int(at * len(content)) if isinstance(at, float) else at] ^= 0x01
    part.write_bytes(content)
    assert first_told(guard, source, out, batch=50) == 100
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_a_part_replaced_by_another_is_scored_again(world, guard, source, tmp_path):
    """One of another place in the same run, and one of the same place in a run on another input."""
    out, parts = tmp_path / "out.parquet", tmp_path / ".out.parquet.parts"
    score_file(guard, source, tmp_path / "whole.parquet", batch=50)
    (tmp_path / "in2").mkdir()
    FeatureSet(world.fresh[::-1]).save(tmp_path / "in2" / "z.safetensors")
    interrupted(guard, tmp_path / "in2" / "z.safetensors", out, after=5, batch=50)
    other = (parts / "000000002.scores").read_bytes()
    for stranger in (lambda: other, lambda: (parts / "000000001.scores").read_bytes()):
        interrupted(guard, source, out, after=5, batch=50)
        assert stranger() != (parts / "000000002.scores").read_bytes()
        (parts / "000000002.scores").write_bytes(stranger())
        assert first_told(guard, source, out, batch=50) == 100
        assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_a_part_damaged_while_the_run_goes_on_is_noticed_and_scored_anew_by_the_next(guard, source, tmp_path):
    out, part = tmp_path / "out.parquet", tmp_path / ".out.parquet.parts" / "000000002.scores"

    def damage(what, done, total):
        if done == 300:
            part.write_bytes(part.read_bytes()[:-1])

    with pytest.raises(SoftscopeError, match=r"000000002\.scores: was damaged after it was written\. Run the command"):
        score_file(guard, source, out, batch=50, progress=damage)
    assert not out.exists()
    assert first_told(guard, source, out, batch=50) == 100
    assert read(out)["row"] == list(range(400))


def test_an_earlier_output_stays_until_the_new_one_is_whole(guard, source, tmp_path):
    out = tmp_path / "out.parquet"
    out.write_bytes(b"earlier")
    interrupted(guard, source, out, after=3, batch=50)
    assert out.read_bytes() == b"earlier"
    score_file(guard, source, out, batch=50)
    assert read(out)["row"] == list(range(400))


def test_two_processes_do_not_write_one_output(guard, source, tmp_path):
    def second(what, done, total):
        with pytest.raises(SoftscopeError, match=r"out\.parquet: another process is writing it"):
            score_file(guard, source, tmp_path / "out.parquet", batch=50)

    score_file(guard, source, tmp_path / "out.parquet", batch=150, progress=second)
    assert read(tmp_path / "out.parquet")["row"] == list(range(400))


def test_without_locks_of_the_file_system_one_process_still_works(guard, source, tmp_path, monkeypatch):
    def no_locks(handle, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    score_file(guard, source, tmp_path / "out.parquet", batch=150)
    assert entries(tmp_path) == ["in", "out.parquet"]


def test_a_folder_removed_by_its_last_holder_is_made_again(guard, source, tmp_path, monkeypatch):
    flock, times = fcntl.flock, []

    def after_the_other_was_done(handle, operation):
        if not times:
            shutil.rmtree(tmp_path / ".out.parquet.parts")
        times.append(handle)
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", after_the_other_was_done)
    score_file(guard, source, tmp_path / "out.parquet", batch=150)
    assert len(times) > 1
    assert entries(tmp_path) == ["in", "out.parquet"]


def test_an_output_that_turned_into_a_folder_meanwhile_is_an_error_and_the_parts_stay(guard, source, tmp_path):
    out = tmp_path / "out.parquet"
    with pytest.raises(SoftscopeError, match=r"out\.parquet: can't be written"):
        score_file(guard, source, out, batch=150, progress=lambda what, done, total: out.mkdir(exist_ok=True))
    out.rmdir()
    assert first_told(guard, source, out, batch=150) == 400


def test_a_full_disk_is_one_line_and_the_next_run_goes_on(guard, source, tmp_path, monkeypatch):
    write = Path.write_bytes
    left = [3]

    def fill(self, content):
        if left[0] == 0:
            write(self, b"half a part")
            raise OSError(28, "No space left on device")
        left[0] -= 1
        write(self, content)

    monkeypatch.setattr(Path, "write_bytes", fill)
    with pytest.raises(SoftscopeError, match="the disk is full"):
        score_file(guard, source, tmp_path / "out.parquet", batch=50)
    assert entries(tmp_path) == [".out.parquet.parts", "in"]
    monkeypatch.undo()
    assert first_told(guard, source, tmp_path / "out.parquet", batch=50) == 150


# --- bad rows


@pytest.fixture
def bad_source(world, tmp_path):
    """Rows 10 (NaN), 120 (inf), 121 (logits beyond float32) and 399 (NaN) are bad."""
    z = world.fresh.copy()
    z[10, 3], z[120, 0], z[121], z[399, -1] = np.nan, np.inf, 3e38, np.nan
    np.save(tmp_path / "bad.npy", z)
    return tmp_path / "bad.npy"


@pytest.mark.parametrize("batch", [60, 400])
def test_flagged_rows_are_alarms_without_a_score_and_the_others_as_ever(world, guard, bad_source, tmp_path, batch):
    summary = score_file(guard, bad_source, tmp_path / "out.parquet", on_bad="flag", batch=batch)
    table = read(tmp_path / "out.parquet")
    bad = [10, 120, 121, 399]
    assert np.flatnonzero(table["bad"]).tolist() == bad
    for column, value in (("uncertainty", None), ("p_value", None), ("predicted", None), ("alarm", True)):
        assert [table[column][row] for row in bad] == [value] * 4
    good = np.setdiff1d(np.arange(400), bad)
    expected = guard.uncertainty(world.fresh)[good]
    np.testing.assert_allclose(np.array(table["uncertainty"], float)[good], expected, rtol=1e-5)
    alarms = int(guard.alarms(world.fresh)[good].sum())
    assert (summary.rows, summary.bad, summary.alarms, summary.rate) == (400, 4, alarms, alarms / 396)


@pytest.mark.parametrize("batch", [60, 400])
def test_without_flagging_the_first_bad_row_is_named(world, guard, bad_source, tmp_path, batch):
    with pytest.raises(SoftscopeError, match=r"bad\.npy: z: row 10 holds nan.*--on-bad flag"):
        score_file(guard, bad_source, tmp_path / "out.parquet", batch=batch)
    z = world.fresh.copy()
    z[121] = 3e38
    np.save(tmp_path / "large.npy", z)
    with pytest.raises(SoftscopeError, match=r"large\.npy: row 121 can't be scored.*--on-bad flag"):
        score_file(guard, tmp_path / "large.npy", tmp_path / "out.parquet", batch=batch)
    assert not (tmp_path / "out.parquet").exists()


def test_scores_beyond_floating_point_are_flagged_too(world, guard, tmp_path, monkeypatch):
    uncertainty = type(guard.estimator).uncertainty
    monkeypatch.setattr(
        type(guard.estimator), "uncertainty", lambda self, z: np.where(z[:, 0] > 2.5, np.nan, uncertainty(self, z))
    )
    np.save(tmp_path / "z.npy", world.fresh)
    summary = score_file(guard, tmp_path / "z.npy", tmp_path / "out.parquet", on_bad="flag")
    beyond = world.fresh[:, 0] > 2.5
    assert 0 < beyond.sum() == summary.bad
    np.testing.assert_array_equal(read(tmp_path / "out.parquet")["bad"], beyond)


def test_parts_of_a_run_that_met_a_bad_row_are_taken_up_when_flagging(world, guard, tmp_path):
    z = world.fresh.copy()
    z[250] = np.nan
    np.save(tmp_path / "bad.npy", z)
    with pytest.raises(SoftscopeError, match="row 250"):
        score_file(guard, tmp_path / "bad.npy", tmp_path / "out.parquet", batch=100)
    assert entries(tmp_path) == [".out.parquet.parts", "bad.npy"]
    assert first_told(guard, tmp_path / "bad.npy", tmp_path / "out.parquet", batch=100, on_bad="flag") == 200
    assert np.flatnonzero(read(tmp_path / "out.parquet")["bad"]).tolist() == [250]


def test_a_failure_before_the_first_part_leaves_nothing(guard, bad_source, tmp_path):
    with pytest.raises(SoftscopeError, match="row 10"):
        score_file(guard, bad_source, tmp_path / "out.parquet")
    assert entries(tmp_path) == ["bad.npy"]


def test_a_file_of_bad_rows_alone_is_flagged_whole(guard, tmp_path):
    np.save(tmp_path / "z.npy", np.full((9, 12), np.nan, np.float32))
    summary = score_file(guard, tmp_path / "z.npy", tmp_path / "out.parquet", on_bad="flag", batch=4)
    assert (summary.rows, summary.bad, summary.alarms, summary.rate, summary.expected) == (9, 9, 0, None, None)
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["uncertainty"].null_count == 9
    assert table["alarm"].to_pylist() == [True] * 9


def test_missing_and_ragged_rows_of_parquet_are_named_or_flagged(world, guard, tmp_path):
    rows = world.fresh[:50].tolist()
    rows[7], rows[9], rows[11][3] = None, rows[9][:5], None
    pq.write_table(pa.table({"z": rows}), tmp_path / "z.parquet")
    with pytest.raises(SoftscopeError, match=r"z\.parquet: z: row 7 is missing"):
        score_file(guard, tmp_path / "z.parquet", tmp_path / "out.parquet", batch=5)
    score_file(guard, tmp_path / "z.parquet", tmp_path / "out.parquet", batch=5, on_bad="flag")
    assert np.flatnonzero(read(tmp_path / "out.parquet")["bad"]).tolist() == [7, 9, 11]


# --- where the output goes


def test_an_output_that_would_overwrite_or_join_its_input_is_refused(world, guard, tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"z": list(world.fresh)}), tmp_path / "in" / "z.parquet")
    for source, out in (
        ("in/z.parquet", "in/z.parquet"),
        ("in", "in/out.parquet"),
        ("in/z.parquet", "in/../in/z.parquet"),
    ):
        with pytest.raises(SoftscopeError, match="would become part of its own input"):
            score_file(guard, tmp_path / source, tmp_path / out)
    assert entries(tmp_path / "in") == ["z.parquet"]
    score_file(guard, tmp_path / "in" / "z.parquet", tmp_path / "in" / "out.parquet")


def test_an_output_that_is_a_link_is_written_through(world, guard, source, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "scores.parquet", tmp_path / "out.parquet"
    target.write_text("old")
    link.symlink_to(target)
    score_file(guard, source, link)
    assert link.is_symlink()
    assert len(pq.read_table(target)) == 400
    assert entries(tmp_path / "elsewhere") == ["scores.parquet"]


def test_an_output_that_is_no_regular_file_is_refused_and_stays(guard, source, tmp_path):
    os.mkfifo(tmp_path / "out.parquet")
    with pytest.raises(SoftscopeError, match="is a device or pipe"):
        score_file(guard, source, tmp_path / "out.parquet")
    assert (tmp_path / "out.parquet").is_fifo()
    assert entries(tmp_path) == ["in", "out.parquet"]


def test_an_output_that_is_no_parquet_file_is_refused(guard, source, tmp_path):
    with pytest.raises(SoftscopeError, match=r"out\.csv: expected a name that ends in \.parquet"):
        score_file(guard, source, tmp_path / "out.csv")
    (tmp_path / "dir.parquet").mkdir()
    with pytest.raises(SoftscopeError, match=r"dir\.parquet: is a folder"):
        score_file(guard, source, tmp_path / "dir.parquet")
    (tmp_path / "file").touch()
    with pytest.raises(SoftscopeError, match="can't be written"):
        score_file(guard, source, tmp_path / "file" / "out.parquet")


def test_features_of_another_network_are_refused_before_anything_is_written(guard, tmp_path):
    np.save(tmp_path / "z.npy", np.ones((5, 3), np.float32))
    with pytest.raises(SoftscopeError, match="has 3 columns, the head expects 12"):
        score_file(guard, tmp_path / "z.npy", tmp_path / "out.parquet")
    assert entries(tmp_path) == ["z.npy"]


def test_an_input_that_changes_while_it_is_read_is_an_error(guard, source, tmp_path, monkeypatch):
    read_on = FeatureSet.unchecked_chunks

    def touched(self, *args, **options):
        os.utime(source, ns=(1, 1))
        return read_on(self, *args, **options)

    monkeypatch.setattr(FeatureSet, "unchecked_chunks", touched)
    with pytest.raises(SoftscopeError, match="has changed since it was opened"):
        score_file(guard, source, tmp_path / "out.parquet")
