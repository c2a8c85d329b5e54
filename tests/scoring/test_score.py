"""Feature files in, one row of scores per input out: right, whole, once, whatever happens in between."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import softmax

from softscope.engine import Engine
from softscope.errors import SoftscopeError
from softscope.guard import Guard
from softscope.scoring import score
from softscope.scoring.folders import OutputFolder

HERE = Engine(workers=1)


def read(out):
    return pq.read_table(out).to_pydict()


def fit_another(world, **changed):
    return Guard.fit(world.head, world.train, world.calibration, **changed)


def test_every_row_of_every_format_comes_back_once_in_order_with_the_scores_of_the_guard(world, inputs, tmp_path):
    summary = score(inputs.folder, world.density, tmp_path / "out", engine=HERE)
    table = read(tmp_path / "out")
    assert table["path"] == [str(inputs.folder / name) for name in inputs.names]
    assert table["row"] == [*range(200), *range(100), *range(200), *range(100)]
    probabilities = softmax(inputs.z.astype(np.float64) @ world.head.weight.T + world.head.bias, axis=1)
    assert table["predicted"] == probabilities.argmax(axis=1).tolist()
    assert table["class"] == [world.head.classes[k] for k in probabilities.argmax(axis=1)]
    assert np.allclose(table["confidence"], probabilities.max(axis=1), rtol=1e-5, atol=0)
    assert np.allclose(table["uncertainty"], world.density.uncertainty(inputs.z), rtol=1e-6, atol=0)
    assert np.allclose(table["p_value"], world.density.p_values(inputs.z), rtol=0, atol=1 / 401 + 1e-12)
    assert table["alarm"] == (np.array(table["p_value"]) <= 0.05).tolist()
    assert set(table["bad"]) == {None}
    assert set(table["alarm_by"]) == {None}
    assert (summary.counted.rows, summary.counted.bad, summary.counted.alarms) == (600, 0, sum(table["alarm"]))
    assert sum(table["alarm"][500:]) == 100
    assert summary.counted.exceeded == ("all inputs",)


def test_the_number_of_workers_and_the_size_of_a_unit_leave_no_trace_in_the_table(world, inputs, tmp_path):
    whole = score(inputs.folder, world.density, tmp_path / "whole", engine=HERE)
    cut = score(inputs.folder, world.density, tmp_path / "cut", engine=Engine(workers=2), unit_bytes=1500)
    assert whole.outputs == 1
    assert cut.outputs > 10
    first, second = read(tmp_path / "whole"), read(tmp_path / "cut")
    close = {"uncertainty"}  # BLAS rounds a row by the shape of its block
    assert np.allclose(first["uncertainty"], second["uncertainty"], rtol=1e-6, atol=0)
    assert {k: v for k, v in first.items() if k not in close} == {k: v for k, v in second.items() if k not in close}


def test_an_output_is_written_some_rows_at_a_time_and_leaves_no_memory_behind(world, inputs, tmp_path, monkeypatch):
    monkeypatch.setattr("softscope.scoring.outputs._GROUP_ROWS", 250)
    before = pa.total_allocated_bytes()
    score(inputs.folder, world.density, tmp_path / "out", engine=HERE)
    assert pa.total_allocated_bytes() == before
    (output,) = (tmp_path / "out").glob("*.parquet")
    groups = pq.ParquetFile(output).metadata
    assert [groups.row_group(number).num_rows for number in range(groups.num_row_groups)] == [250, 250, 100]


def test_two_guards_tell_extrapolation_from_doubt(world, inputs, tmp_path):
    summary = score(inputs.folder, [world.density, world.softmax], tmp_path / "out", engine=HERE)
    table = read(tmp_path / "out")
    density, doubt = world.density.alarms(inputs.z), world.softmax.alarms(inputs.z)
    names = {(False, False): "none", (True, False): "density", (False, True): "softmax", (True, True): "both"}
    expected = [names[pair] for pair in zip(density.tolist(), doubt.tolist())]
    assert table["alarm_by"] == expected
    assert summary.alarm_by == {name: expected.count(name) for name in sorted(set(expected))}
    assert set(expected) == set(names.values())
    assert np.array_equal(table["alarm"], density)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [("density", "mahalanobis", "don't make a pair"), ("max", "entropy", "don't make a pair")],
)
def test_two_guards_of_one_kind_are_refused(world, inputs, tmp_path, first, second, message):
    pair = [fit_another(world, estimator=name) for name in (first, second)]
    with pytest.raises(SoftscopeError, match=message):
        score(inputs.folder, pair, tmp_path / "out", engine=HERE)


def test_guards_of_two_networks_are_refused(world, inputs, tmp_path):
    from softscope.head import Head

    other = Guard.fit(Head(world.head.weight + 1), None, world.calibration, "max")
    with pytest.raises(SoftscopeError, match="fitted for different heads"):
        score(inputs.folder, [world.density, other], tmp_path / "out", engine=HERE)


def test_what_can_not_be_scored_is_a_row_with_a_reason_and_an_alarm(world, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    z = world.fresh[:50].copy()
    z[7, 3], z[9, 0], z[11] = np.nan, np.inf, 3e38
    np.save(folder / "a.npy", z)
    rows = [row.tolist() for row in world.fresh[50:60]]
    rows[2], rows[4] = None, rows[4][:5]
    pq.write_table(pa.table({"z": pa.array(rows, pa.list_(pa.float32()))}), folder / "b.parquet")
    np.save(folder / "c.npy", world.fresh[:4, :5])
    (folder / "d.safetensors").write_bytes(b"nonsense")
    np.save(folder / "e.npy", world.fresh[:3])
    summary = score(folder, world.density, tmp_path / "out", engine=HERE)
    table = read(tmp_path / "out")
    bad = {
        (path.rpartition("/")[2], row): (reason, alarm)
        for path, row, reason, alarm in zip(table["path"], table["row"], table["bad"], table["alarm"])
        if reason
    }
    missing, large = "features are missing, NaN or infinite", "features are too large to score"
    assert bad == {
        ("a.npy", 7): (missing, True),
        ("a.npy", 9): (missing, True),
        ("a.npy", 11): (large, True),
        ("b.parquet", 2): (missing, True),
        ("b.parquet", 4): (missing, True),
        ("c.npy", None): ("has 5 columns, the head expects 12", True),
        ("d.safetensors", None): (bad[("d.safetensors", None)][0], True),
    }
    assert "not a whole safetensors file" in bad[("d.safetensors", None)][0]
    assert (summary.counted.rows, summary.counted.bad) == (50 + 10 + 1 + 1 + 3, 7)
    scored = [number for number, reason in enumerate(table["bad"]) if reason is None]
    assert all(table[name][number] is not None for name in ("class", "uncertainty", "p_value") for number in scored)
    assert summary.counted.alarms == sum(table["alarm"]) - 7


def test_a_file_that_breaks_off_keeps_its_rows_and_none_is_missing(world, tmp_path, monkeypatch):
    monkeypatch.setattr("softscope.scoring.job._BLOCK_BYTES", 100 * 12 * 4)
    folder = tmp_path / "in"
    folder.mkdir()
    path = folder / "a.parquet"
    pq.write_table(
        pa.table({"z": pa.array([row.tolist() for row in world.fresh], pa.list_(pa.float32()))}),
        path,
        row_group_size=100,
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
    )
    content = bytearray(path.read_bytes())
    third = pq.read_metadata(path).row_group(2).column(0)
    content[third.data_page_offset + third.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(content)
    summary = score(folder, world.density, tmp_path / "out", engine=HERE)
    table = read(tmp_path / "out")
    assert (summary.counted.rows, summary.counted.bad) == (500, 300)
    assert table["row"] == list(range(500))
    assert table["bad"][:200] == [None] * 200
    assert all("not a whole parquet file" in reason for reason in table["bad"][200:])


def test_nothing_that_could_be_scored_is_an_error(world, tmp_path):
    np.save(tmp_path / "a.npy", np.full((3, 12), np.nan, np.float32))
    with pytest.raises(SoftscopeError, match=r"none of 3 inputs .*a\.npy: features are miss"):
        score(tmp_path / "a.npy", world.density, tmp_path / "out", engine=HERE)


@pytest.mark.parametrize("place", [2, 60, 1000, 2000, -25, -5])
def test_a_second_run_scores_nothing_again_and_repairs_what_is_gone_or_damaged(world, inputs, tmp_path, place):
    out = tmp_path / "out"
    first = score(inputs.folder, world.density, out, engine=HERE, unit_bytes=3000)
    before = read(out)
    files = sorted(out.glob("*.parquet"))
    stamps = {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in files}
    files[1].unlink()
    content = bytearray(files[3].read_bytes())
    content[place % len(content)] ^= 0xFF
    files[3].write_bytes(content)
    files[5].write_bytes(files[4].read_bytes())
    second = score(inputs.folder, world.density, out, engine=HERE, unit_bytes=3000)
    assert second.skipped == first.outputs - 3
    assert second.counted == first.counted
    assert read(out) == before
    same = {f.name for f in sorted(out.glob("*.parquet")) if (f.stat().st_ino, f.stat().st_mtime_ns) == stamps[f.name]}
    assert same == stamps.keys() - {files[1].name, files[3].name, files[5].name}


def test_a_run_that_broke_off_goes_on_where_it_stopped(world, inputs, tmp_path, monkeypatch):
    score(inputs.folder, world.density, tmp_path / "undisturbed", engine=HERE, unit_bytes=3000)
    write, written = OutputFolder.write, []

    def failing(self, name, content):
        if len(written) == 4:
            raise SoftscopeError("the disk is full", "Free some space")
        write(self, name, content)
        written.append(name)

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(OutputFolder, "write", failing)
        with pytest.raises(SoftscopeError, match="the disk is full"):
            score(inputs.folder, world.density, out, engine=HERE, unit_bytes=3000)
    assert not (out / "_manifest.json").exists()
    (out / ".0000000-abc.parquet.0a.part").write_bytes(b"left by a kill")
    summary = score(inputs.folder, world.density, out, engine=HERE, unit_bytes=3000)
    assert summary.skipped == 3  # the first file written was _run.json
    assert read(out) == read(tmp_path / "undisturbed")
    assert not list(out.glob(".*.part"))


def test_a_folder_belongs_to_one_run(world, inputs, tmp_path):
    out = tmp_path / "out"
    score(inputs.folder, world.density, out, engine=HERE)
    with pytest.raises(SoftscopeError, match="scores of another run \\(other guards\\)"):
        score(inputs.folder, fit_another(world, false_alarms=0.1), out, engine=HERE)
    with pytest.raises(SoftscopeError, match="other unit_bytes"):
        score(inputs.folder, world.density, out, engine=HERE, unit_bytes=3000)
    np.save(inputs.folder / "new.npy", world.fresh[:2])
    with pytest.raises(SoftscopeError, match="other inputs"):
        score(inputs.folder, world.density, out, engine=HERE)
    (out / "_run.json").write_text("[[[")
    with pytest.raises(SoftscopeError, match="scores of another run"):
        score(inputs.folder, world.density, out, engine=HERE)


def test_an_output_is_named_by_its_inputs_and_by_the_guard(world, inputs, tmp_path):
    def names(out, guard):
        score(inputs.folder, guard, out, engine=HERE, unit_bytes=3000)
        return [file.name for file in sorted(out.glob("*.parquet"))]

    once, again = names(tmp_path / "1", world.density), names(tmp_path / "2", world.density)
    other = names(tmp_path / "3", fit_another(world, false_alarms=0.1))
    assert once == again
    assert len(other) == len(once)
    assert not set(once) & set(other)
    np.save(inputs.folder / "b.npy", world.fresh[200:300][::-1])
    changed = names(tmp_path / "4", world.density)
    assert changed[0] != once[0]  # the hash of a run is part of every name, and the run's inputs are other ones


@pytest.mark.parametrize("place", ["", "out", "deeper/out"])
def test_the_output_must_not_lie_in_the_input(world, inputs, place):
    with pytest.raises(SoftscopeError, match="part of its own input"):
        score(inputs.folder, world.density, inputs.folder / place, engine=HERE)


@pytest.mark.parametrize(("name", "message"), [("gone", "no such file"), ("empty", "there is no file to score")])
def test_an_input_without_files_is_one_clear_line(world, tmp_path, name, message):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SoftscopeError, match=message):
        score(tmp_path / name, world.density, tmp_path / "out", engine=HERE)


def test_the_manifest_says_what_was_scored_with_what_and_what_to_expect(world, inputs, tmp_path):
    out = tmp_path / "out"
    world.density.save(tmp_path / "guard.safetensors")
    summary = score(inputs.folder, Guard.load(tmp_path / "guard.safetensors"), out, engine=HERE, unit_bytes=3000)
    manifest = json.loads((out / "_manifest.json").read_text())
    from safetensors import safe_open

    with safe_open(tmp_path / "guard.safetensors", "np") as file:
        assert manifest["guards"] == [file.metadata()["sha256"]]
    assert manifest["files"] == {f.name: pq.read_metadata(f).num_rows for f in sorted(out.glob("*.parquet"))}
    assert sum(manifest["files"].values()) == manifest["rows"] == 600
    assert manifest["alarms"] == summary.counted.alarms
    assert manifest["expected"] == list(summary.counted.expected)
    assert manifest["provenance"]["versions"]["softscope"] == manifest["softscope"]


def test_known_inputs_raise_as_many_alarms_as_promised(world, tmp_path):
    np.save(tmp_path / "a.npy", world.fresh)
    summary = score(tmp_path / "a.npy", world.density, tmp_path / "out", engine=HERE)
    low, high = summary.counted.expected
    assert low <= summary.counted.alarms <= high
    assert summary.counted.exceeded == ()


def test_an_address_is_read_and_written_like_a_folder(world, inputs, tmp_path):
    score(inputs.folder, world.density, tmp_path / "here", engine=HERE)
    score(f"file://{inputs.folder}", world.density, f"file://{tmp_path}/there", engine=HERE)
    again = score(f"file://{inputs.folder}", world.density, f"file://{tmp_path}/there", engine=HERE)
    assert again.skipped == again.outputs == 1
    here, there = read(tmp_path / "here"), read(tmp_path / "there")
    assert [path.removeprefix("file://") for path in there.pop("path")] == here.pop("path")
    assert there == here


def test_a_second_process_does_not_write_into_the_same_folder(world, inputs, tmp_path):
    from softscope.locks import locked

    out = tmp_path / "out"
    out.mkdir()
    with locked(out / ".lock"), pytest.raises(SoftscopeError, match="another process is scoring into it"):
        score(inputs.folder, world.density, out, engine=HERE)


def test_progress_counts_rows(world, inputs, tmp_path):
    told = []
    np.save(inputs.folder / "d.npy", world.fresh[:1])
    score(
        inputs.folder,
        world.density,
        tmp_path / "out",
        engine=HERE,
        unit_bytes=3000,
        progress=lambda what, done, total: told.append((what, done, total)),
    )
    assert told[0] == ("scoring", 0, 601)
    assert told[-1] == ("scoring", 601, 601)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_a_guard_per_class_names_the_classes_with_too_many_alarms(world, inputs, tmp_path):
    guard = fit_another(world, per_class=True)
    summary = score(inputs.folder, guard, tmp_path / "out", engine=HERE)
    table = read(tmp_path / "out")
    assert np.allclose(table["p_value"], guard.p_values(inputs.z), rtol=0, atol=0.05)
    assert table["alarm"] == guard.alarms(inputs.z).tolist()
    assert summary.counted.expected is None
    assert summary.counted.exceeded


def test_a_promise_for_this_very_guard_is_kept_by_its_alarms(world, inputs, tmp_path):
    guard = fit_another(world, confidence=0.95)
    score(inputs.folder, guard, tmp_path / "out", engine=HERE)
    assert read(tmp_path / "out")["alarm"] == guard.alarms(inputs.z).tolist()
