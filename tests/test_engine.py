"""map over tasks: order, errors, crashes, interruption, on cores and on a Ray cluster that loses a node."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from softscope.engine import Engine
from softscope.engine.cluster import joined
from softscope.engine.threads import limited_threads
from softscope.errors import SoftscopeError
from softscope.runs import Store

from .clusters import cluster_of

TASKS = """
import os, signal, time
from pathlib import Path

from softscope.errors import SoftscopeError


def square(number):
    return number * number


def refuse(number):
    if number == 3:
        raise SoftscopeError("three is bad", "Use four")
    if number == 4:
        raise ValueError("four is worse")
    return number


def crash_once(folder, number):
    mark = Path(folder) / str(number)
    if number == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def crash_always(number):
    if number == 1:
        os._exit(7)
    return number


def unpicklable_result(number):
    return lambda: number


def threads(number):
    import torch

    return torch.get_num_threads(), os.environ["OMP_NUM_THREADS"], os.getpid()


def sleep(folder, number):
    try:
        (Path(folder) / f"started-{number}-{os.getpid()}").touch()
        time.sleep(600)
    finally:
        (Path(folder) / f"cleaned-{number}").touch()


def stored(store, log, number):
    # Only the first ends by itself: the others wait to be released, however slow the machine is.
    import ray

    node = ray.get_runtime_context().get_node_id()

    def produce(draft):
        (Path(log) / f"begun-{node}-{os.getpid()}-{number}").touch()
        while number and not (Path(log) / "released").exists():
            time.sleep(0.1)
        draft.json({"square": number * number})
        with open(Path(log) / f"ended-{number}", "a") as file:
            file.write("x")

    step = store.run({"number": number}).step("square", produce)
    with open(Path(log) / f"whole-{number}", "a") as file:
        file.write("x")
    return step.json()["square"]
"""


@pytest.fixture(scope="session")
def tasks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "engine_tasks.py").write_text(TASKS)
    return folder


@pytest.fixture
def tasks(tasks_folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(tasks_folder))
    import engine_tasks  # type: ignore[import-not-found]

    return engine_tasks


def test_results_keep_the_order_of_the_items_here_and_in_processes(tasks: ModuleType) -> None:
    items = list(range(12))
    expected = [number * number for number in items]
    assert Engine(workers=1).map(tasks.square, items) == expected
    assert Engine(workers=2).map(tasks.square, items) == expected


@pytest.mark.parametrize("workers", [1, 2])
def test_each_result_is_told_as_soon_as_it_is_there(tasks: ModuleType, workers: int) -> None:
    seen: list[int] = []
    assert Engine(workers=workers).map(tasks.square, [3, 1, 2], told=seen.append) == [9, 1, 4]
    assert sorted(seen) == [1, 4, 9]


def test_nothing_to_do_is_an_empty_list(tasks: ModuleType) -> None:
    assert Engine().map(tasks.square, []) == []


def test_one_worker_runs_in_this_process_so_that_a_local_function_will_do() -> None:
    seen: list[int] = []
    Engine(workers=1).map(seen.append, [1, 2])
    assert seen == [1, 2]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_softscope_error_of_a_task_reaches_the_caller_as_it_is(tasks: ModuleType, workers: int) -> None:
    with pytest.raises(SoftscopeError, match=r"three is bad\. Use four"):
        Engine(workers=workers).map(tasks.refuse, [1, 2, 3])


def test_another_error_carries_the_workers_traceback(tasks: ModuleType) -> None:
    with pytest.raises(ValueError, match="four is worse") as caught:
        Engine(workers=2).map(tasks.refuse, [4, 4])
    assert "in refuse" in "".join(caught.value.__notes__)


def test_a_crashed_workers_item_is_tried_once_more(tasks: ModuleType, tmp_path: Path) -> None:
    assert Engine(workers=2).map(partial(tasks.crash_once, str(tmp_path)), range(5)) == [0, 1, 2, 3, 4]


def test_an_item_that_crashes_twice_is_named(tasks: ModuleType) -> None:
    with pytest.raises(SoftscopeError, match=r"task 1 \(1\) ended its process 2 times \(exit code 7\)"):
        Engine(workers=2).map(tasks.crash_always, [0, 1, 2])


def test_a_task_that_can_not_travel_is_one_clear_line() -> None:
    with pytest.raises(SoftscopeError, match="can't be sent to another process"):
        Engine(workers=2).map(lambda number: number, [1, 2])


def test_a_result_that_can_not_travel_is_one_clear_line(tasks: ModuleType) -> None:
    with pytest.raises(SoftscopeError, match="result can't be sent back"):
        Engine(workers=2).map(tasks.unpicklable_result, [1, 2])


@pytest.mark.parametrize("workers", [1, 2])
def test_a_task_has_the_threads_of_the_settings_and_no_more(tasks: ModuleType, workers: int) -> None:
    before = os.environ.get("OMP_NUM_THREADS")
    results = Engine(workers=workers).map(tasks.threads, [0, 1], threads=1)
    assert [(torch, variable) for torch, variable, _ in results] == [(1, "1")] * 2
    assert all((pid == os.getpid()) == (workers == 1) for *_, pid in results)
    assert os.environ.get("OMP_NUM_THREADS") == before


def test_threads_are_given_back() -> None:
    import torch

    before = torch.get_num_threads()
    with limited_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "cloud"}, "not known"),
        ({"workers": 0}, "at least 1 worker"),
        ({"address": "auto"}, "needs engine 'ray'"),
    ],
)
def test_a_wrong_engine_is_one_clear_line(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SoftscopeError, match=message):
        Engine(**wrong)


def test_missing_ray_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SoftscopeError, match=r"pip install 'softscope\[ray\]'"):
        Engine("ray").map(str, [1])


def test_importing_the_engine_is_light() -> None:
    heavy = "{'ray', 'torch', 'rich', 'joblib', 'safetensors'}"
    code = f"import softscope.engine, softscope.runs, sys; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for(condition: Any) -> None:
    """Until it holds; only pytest's own limit ends a test that hangs."""
    while not condition():
        time.sleep(0.05)


def workers_in(folder: Path) -> list[int]:
    return [int(path.name.rpartition("-")[2]) for path in folder.glob("started-*")]


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("method", ["map", "as_done"])
def test_no_worker_outlives_an_interrupted_or_killed_parent(
    tasks_folder: Path, tmp_path: Path, sent: int, method: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
            import functools, sys
            sys.path.insert(0, {str(tasks_folder)!r})
            import engine_tasks
            from softscope.engine import Engine
            if __name__ == "__main__":
                try:
                    list(Engine(workers=2).{method}(functools.partial(engine_tasks.sleep, {str(tmp_path)!r}), range(4)))
                except KeyboardInterrupt:
                    print("interrupted")
        """)
    )
    command = [sys.executable, str(script)]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    parent = subprocess.Popen(command, **piped, text=True, start_new_session=True)
    wait_for(lambda: len(workers_in(tmp_path)) == 2)
    if sent == signal.SIGINT:
        os.killpg(parent.pid, sent)  # a terminal sends Ctrl-C to every process of the group
    else:
        parent.kill()
    output, errors = parent.communicate()
    assert output == ("interrupted\n" if sent == signal.SIGINT else "")
    assert "Traceback" not in errors
    wait_for(lambda: not any(alive(pid) for pid in workers_in(tmp_path)))
    assert len(workers_in(tmp_path)) == 2
    assert len(list(tmp_path.glob("cleaned-*"))) == (2 if sent == signal.SIGINT else 0)


@pytest.fixture
def quiet_ray(monkeypatch: pytest.MonkeyPatch, tasks_folder: Path) -> ModuleType:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", str(tasks_folder))
    return pytest.importorskip("ray")


@pytest.mark.slow
@pytest.mark.apart
def test_ray_started_here_gives_the_same_results_errors_and_threads(quiet_ray: ModuleType, tasks: ModuleType) -> None:
    with pytest.raises(SoftscopeError, match=r"three is bad\. Use four"):
        Engine("ray", workers=2).map(tasks.refuse, [1, 3])
    assert not quiet_ray.is_initialized()
    local = Engine().map(tasks.square, range(5))
    quiet_ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        assert Engine("ray").map(tasks.square, range(5)) == local
        assert [own[:2] for own in Engine("ray").map(tasks.threads, range(2))] == [(1, "1")] * 2
        assert quiet_ray.is_initialized()  # who connected, disconnects
        with pytest.raises(SoftscopeError, match=r"task 1 \(1\) was lost 4 times"):
            Engine("ray").map(tasks.crash_always, [0, 1])
    finally:
        quiet_ray.shutdown()


def job_answer(port: int) -> int | None:
    """The status that a job without a token gets at this port, None where nobody there speaks HTTP."""
    headers = {"Content-Type": "application/json"}
    job = Request(f"http://127.0.0.1:{port}/api/job_agent/jobs/", b'{"entrypoint": "true"}', headers)
    try:
        with urlopen(job, timeout=20) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except (OSError, HTTPException):
        return None


def listening() -> set[tuple[str, Any]]:
    """(name, address) of every port at which this process or one below it listens."""
    import psutil

    ports, driver = set(), psutil.Process()
    for process in [driver, *driver.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # some live for a moment only
            connections = process.net_connections("inet")
            ports |= {(process.name(), each.laddr) for each in connections if each.status == psutil.CONN_LISTEN}
    return ports


@pytest.mark.slow
@pytest.mark.apart
def test_a_ray_started_here_listens_on_loopback_alone_and_refuses_strangers(quiet_ray: ModuleType) -> None:
    with joined(None, 1) as ray:
        assert ray.get(ray.remote(lambda: 5).remote()) == 5
        answers: set[int | None] = set()
        while 401 not in answers:  # the agent listens a while after the first task can run
            addresses = listening()
            answers |= {job_answer(place.port) for name, place in addresses if name == "ray::DashboardAgent"}
        assert {"gcs_server", "raylet"} <= {name for name, _ in addresses}
        assert {place.ip for _, place in addresses} <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
        assert not answers & {200, 201, 202}


@pytest.mark.slow
@pytest.mark.apart
def test_a_ray_started_here_starts_no_process_that_is_of_no_use_here(quiet_ray: ModuleType) -> None:
    import psutil
    from ray._private import node, parameter, ray_constants

    def changed_for_the_start() -> list[Any]:
        return [ray_constants.ENABLE_RAY_CLUSTER, parameter.RayParams, node.Node.start_api_server]

    before = changed_for_the_start()
    with joined(None, 1) as ray:
        assert changed_for_the_start() == before
        assert ray.get(ray.remote(lambda: 5).remote()) == 5
        below = psutil.Process().children(recursive=True)
        started = {word.rpartition("/")[2] for process in below for word in process.cmdline()}
    assert {"gcs_server", "raylet"} <= started
    assert not {"dashboard.py", "log_monitor.py", "monitor.py"} & started


@pytest.mark.slow
@pytest.mark.apart
def test_a_cluster_that_is_not_there_is_one_clear_line(quiet_ray: ModuleType) -> None:
    with pytest.raises(SoftscopeError, match=r"can't join the Ray cluster at 127\.0\.0\.1:1"):
        Engine("ray", address="127.0.0.1:1").map(str, [1])


@pytest.mark.slow
@pytest.mark.apart
def test_a_node_killed_in_the_middle_loses_nothing_and_repeats_nothing_whole(
    quiet_ray: ModuleType, tasks: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.mkdir()
    with cluster_of(1, 2) as cluster:
        doomed = cluster.list_all_nodes()[-1]
        capfd.readouterr()
        task = partial(tasks.stored, Store(tmp_path / "store"), str(log))
        with ThreadPoolExecutor(1) as pool:
            mapped = pool.submit(Engine("ray", address=cluster.address).map, task, range(6))
            wait_for(lambda: numbers(log, "whole") == {0})
            wait_for(lambda: numbers(log, f"begun-{doomed.node_id}") - {0})
            cluster.remove_node(doomed, allow_graceful=False)
            workers = [int(path.name.split("-")[-2]) for path in log.glob(f"begun-{doomed.node_id}-*")]
            wait_for(lambda: not any(alive(worker) for worker in workers))
            (log / "released").touch()
            assert mapped.result() == [number * number for number in range(6)]
        assert capfd.readouterr().out == ""
    begun = {number: len(list(log.glob(f"begun-*-{number}"))) for number in range(6)}
    assert numbers(log, "ended") == set(range(6))
    assert begun[0] == 1
    assert max(begun.values()) == 2, "a task that the killed node had begun was begun again elsewhere"


def numbers(log: Path, kind: str) -> set[int]:
    return {int(path.name.rpartition("-")[2]) for path in log.glob(f"{kind}-*")}
