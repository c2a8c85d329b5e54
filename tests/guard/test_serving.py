"""The service: the protocol's JSON and binary forms, limits, meters, fuzzed bodies, a real server under load."""

import concurrent.futures
import json
import math
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import psutil
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")
from fastapi.testclient import TestClient  # noqa: E402

from softscope.guard import Monitor  # noqa: E402
from softscope.guard.serving import Service, make_app  # noqa: E402

DOCS = Path(__file__).parents[2] / "docs"
INFER = "/v2/models/guard/infer"


@pytest.fixture
def client(guard):
    with TestClient(make_app(Service(guard), body_bytes=1 << 16, body_seconds=60)) as made:
        yield made


def asked(rows, kind="FP32", **more):
    data = np.asarray(rows)
    entry = {"name": "z", "shape": list(data.shape), "datatype": kind, "data": data.ravel().tolist()}
    return {"inputs": [entry]} | more


def outputs(answer):
    return {entry["name"]: np.array(entry["data"]) for entry in answer.json()["outputs"]}


def test_the_server_says_what_it_is_and_that_it_is_ready(client):
    assert client.get("/v2").json()["extensions"] == ["binary_tensor_data"]
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/guard/ready"):
        assert client.get(path).status_code == 200
    said = client.get("/v2/models/guard").json()
    assert said["inputs"] == [{"name": "z", "datatype": "FP32", "shape": [-1, 12]}]
    assert [entry["name"] for entry in said["outputs"]] == ["uncertainty", "p", "alarm", "class"]
    for path in ("/docs", "/openapi.json", "/v2/models/other", "/../etc/passwd"):
        assert client.get(path).status_code == 404


def test_rows_are_judged_as_in_python(client, guard, world):
    rows = np.concatenate([world.fresh[:30], world.strange[:5]])
    answer = client.post(INFER, json=asked(rows, id="seven"))
    assert (answer.status_code, answer.json()["id"], answer.json()["model_name"]) == (200, "seven", "guard")
    said = outputs(answer)
    np.testing.assert_allclose(said["uncertainty"], guard.uncertainty(rows), rtol=1e-6)
    np.testing.assert_allclose(said["p"], guard.p_values(rows))
    np.testing.assert_array_equal(said["alarm"], guard.alarms(rows))
    np.testing.assert_array_equal(said["class"], world.head.logits(rows).argmax(axis=1))


def test_nested_data_one_row_float64_and_chosen_outputs(client, guard, world):
    nested = asked(world.fresh[:3]) | {"outputs": [{"name": "alarm"}]}
    nested["inputs"][0]["data"] = world.fresh[:3].tolist()
    answer = client.post(INFER, json=nested)
    assert [entry["name"] for entry in answer.json()["outputs"]] == ["alarm"]
    one = outputs(client.post(INFER, json=asked(world.fresh[0].astype(float), "FP64")))
    np.testing.assert_allclose(one["uncertainty"], guard.uncertainty(world.fresh[:1].astype(float)), rtol=1e-6)


def test_the_binary_form_goes_in_and_comes_out(client, guard, world):
    rows = world.fresh[:20]
    entry = {"name": "z", "shape": [20, 12], "datatype": "FP32", "parameters": {"binary_data_size": rows.nbytes}}
    head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = client.post(INFER, content=head + rows.tobytes(), headers=headers)
    length = int(answer.headers["Inference-Header-Content-Length"])
    words, tail = json.loads(answer.content[:length]), answer.content[length:]
    sizes = [entry["parameters"]["binary_data_size"] for entry in words["outputs"]]
    assert sizes == [160, 160, 20, 160]
    p = np.frombuffer(tail[160:320], "<f8")
    np.testing.assert_allclose(p, guard.p_values(rows))
    alarms = np.frombuffer(tail[320:340], "?")
    np.testing.assert_array_equal(alarms, guard.alarms(rows))


def test_the_meters_count_what_was_judged_and_show_drift(client, guard, world):
    for rows in (world.fresh, world.strange):
        for start in range(0, len(rows), 50):
            client.post(INFER, json=asked(rows[start : start + 50]))
    text = client.get("/metrics").text
    both = np.concatenate([world.fresh, world.strange])
    taken, raised = world.head.logits(both).argmax(axis=1), guard.alarms(both)
    for k, name in enumerate(world.head.classes):
        assert f'softscope_inputs_total{{class="{name}"}} {float((taken == k).sum())}' in text
        assert f'softscope_alarms_total{{class="{name}"}} {float(raised[taken == k].sum())}' in text
    assert f"softscope_p_value_count {float(len(both))}" in text
    assert "softscope_drift_alarm 1.0" in text
    assert float(re.search(r"^softscope_drift_evidence_log10 (\S+)", text, re.MULTILINE)[1]) > 2
    assert f'sha256="{guard.sha256}"' in text
    assert f'softscope_requests_total{{status="200"}} {math.ceil(len(world.fresh) / 50) + 2}.0' in text


def test_the_monitor_goes_on_after_a_restart(guard, world, tmp_path):
    for _ in range(2):
        with TestClient(make_app(Service(guard, state=tmp_path / "s.safetensors"))) as made:
            made.post(INFER, json=asked(world.fresh[:40]))
    assert Monitor.load(tmp_path / "s.safetensors", guard).evidence.rows == 80


REFUSED = {
    "no JSON": (b"{", 400, "not JSON"),
    "nested without end": (b"[" * 60_000, 400, "not JSON"),
    "a list": (b"[]", 400, "not a JSON object"),
    "no inputs": (b"{}", 400, "expected one input"),
    "two inputs": ({"inputs": [{}, {}]}, 400, "expected one input"),
    "another name": (asked(np.ones((1, 12))) | {"inputs": [{"name": "x"}]}, 400, "is not called 'z'"),
    "whole numbers": (asked(np.ones((1, 12), int), "INT64"), 400, "datatype is not one of FP32, FP64"),
    "another width": (asked(np.ones((2, 5))), 400, r"expected \[rows, 12\]"),
    "too few data": ({"inputs": [asked(np.ones((2, 12)))["inputs"][0] | {"data": [1.0]}]}, 400, "not 24 numbers"),
    "words": ({"inputs": [asked(np.ones((1, 12)))["inputs"][0] | {"data": ["1"] * 12}]}, 400, "not 12 numbers"),
    "huge numbers": (json.dumps(asked(np.ones((1, 12)))).replace("1.0", "9" * 400).encode(), 400, "not JSON"),
    "NaN": (json.dumps(asked(np.full((2, 12), np.nan))).encode(), 400, "not JSON .*NaN"),
    "null": ({"inputs": [asked(np.ones((1, 12)))["inputs"][0] | {"data": [None] * 12}]}, 400, "not 12 numbers"),
    "inf in float32": (json.dumps(asked(np.full((1, 12), 1e300))).encode(), 400, "row 0 can't be scored"),
    "another output": (asked(np.ones((1, 12))) | {"outputs": [{"name": "q"}]}, 400, "no such output"),
    "an id that is a list": (asked(np.ones((1, 12))) | {"id": [1]}, 400, "id is not a string"),
    "too large": (b" " * (1 << 17), 413, "more than 65536 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_said_with_a_status_that_is_not_500(client, name):
    body, status, message = REFUSED[name]
    answer = client.post(INFER, content=body if isinstance(body, bytes) else json.dumps(body).encode())
    assert answer.status_code == status
    assert re.search(message, answer.json()["error"])


def test_a_binary_row_that_can_not_be_scored_is_named(client):
    rows = np.ones((3, 12), np.float32)
    rows[1, 4] = np.nan
    entry = {"name": "z", "shape": [3, 12], "datatype": "FP32", "parameters": {"binary_data_size": rows.nbytes}}
    head = json.dumps({"inputs": [entry]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = client.post(INFER, content=head + rows.tobytes(), headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (400, "row 1 can't be scored. Send finite features")


def test_a_bad_header_length_is_refused(client):
    for length in ("-1", "9999999", "x", "٣", "1e3", "9" * 5000):
        headers = {"Inference-Header-Content-Length": length.encode()}
        assert client.post(INFER, content=b"{}", headers=headers).status_code == 400


def mutated(rng, body):
    """One request, damaged in one of many ways."""
    content = bytearray(body)
    for _ in range(rng.randint(1, 6)):
        way, at = rng.randrange(5), rng.randrange(len(content) or 1)
        if way == 0 and content:
            content[at] = rng.randrange(256)
        elif way == 1:
            del content[at : at + rng.randint(1, 40)]
        elif way == 2:
            content[at:at] = rng.choice(
                [b"[", b"{", b'"', b"null", b"1e999", b"-", b"NaN", b"\x00", b"\xff\xfe", b",,"]
            )
        elif way == 3:
            content[at:at] = content[: rng.randint(0, 60)]
        else:
            content = bytearray(
                content.replace(rng.choice([b"12", b"FP32", b"z", b"shape", b":", b"0."]), b"9" * rng.randint(0, 30), 1)
            )
    return bytes(content)


def damaged(world, cases):
    """Bodies, each with the header of the binary form or None."""
    rng = random.Random(0)
    entry = {"name": "z", "shape": [2, 12], "datatype": "FP32", "parameters": {"binary_data_size": 96}}
    head = json.dumps({"inputs": [entry], "outputs": [{"name": "p", "parameters": {"binary_data": True}}]}).encode()
    plain = json.dumps(asked(world.fresh[:2].round(2).astype(float), id="x")).encode()
    for _ in range(cases):
        binary = rng.random() < 0.5
        body = mutated(rng, head + world.fresh[:2].tobytes() if binary else plain)
        yield body, str(len(head) + rng.choice([0, 0, 0, -1, 1, 5000, -90])) if binary else None


@pytest.mark.parametrize("bodies", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_damaged_bodies_are_answered_or_refused_and_never_an_error_of_the_server(client, world, bodies):
    statuses = Counter()
    for body, length in damaged(world, bodies):
        headers = {"Inference-Header-Content-Length": length} if length else {}
        statuses[client.post(INFER, content=body, headers=headers).status_code] += 1
    assert set(statuses) == {200, 400}
    assert statuses[200] > bodies / 200
    assert statuses[400] > bodies / 2


def test_the_alert_rules_speak_of_meters_that_exist(client):
    text = client.get("/metrics").text
    rules = (DOCS / "softscope-alerts.yml").read_text()
    names = set(re.findall(r"softscope_[a-z0-9_]+", rules))
    assert names
    for name in names:
        assert re.search(rf"^# HELP {name} ", text, re.MULTILINE), name


# --- a real server


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def server(guard, tmp_path):
    """`softscope guard serve` on a free port of this machine."""
    guard.save(tmp_path / "guard.safetensors")
    port = free_port()
    command = [sys.executable, "-c", "from softscope.cli import main; main()", "guard", "serve", "guard.safetensors"]
    process = subprocess.Popen([*command, "--port", str(port), "--state", "s.safetensors"], cwd=tmp_path)
    address = f"http://127.0.0.1:{port}"
    try:
        while True:  # only pytest's own limit ends it
            try:
                httpx.get(f"{address}/v2/health/ready")
                break
            except httpx.TransportError:
                assert process.poll() is None
                time.sleep(0.1)
        yield address, process, tmp_path
    finally:
        process.kill()
        process.wait()


def post(address, rows):
    """The status of a request without a limit in time: the machine may be busy."""
    return httpx.post(address + INFER, json=asked(rows), timeout=None).status_code


@pytest.mark.slow
def test_a_stopped_server_answers_what_it_has_and_keeps_its_monitor(server, guard, world):
    address, process, folder = server
    assert post(address, world.fresh[:10]) == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait() in (0, -signal.SIGTERM)
    assert Monitor.load(folder / "s.safetensors", guard).evidence.rows == 10


@pytest.mark.slow
def test_a_slow_body_is_given_up_and_others_are_served_meanwhile(server, world):
    address, *_ = server
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
        assert post(address, world.fresh[:1]) == 200
        assert b" 408 " in slow.recv(1000)


@pytest.mark.slow
def test_fifty_clients_are_all_answered_and_memory_stays(server, world):
    """5,000 requests over loopback; how fast is for a benchmark to say."""
    address, process, _ = server
    body = json.dumps(asked(world.fresh[:1])).encode()

    def send(count):
        with httpx.Client(base_url=address, timeout=None) as own:
            return [own.post(INFER, content=body).status_code for _ in range(count)]

    def load(count):
        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            return {status for statuses in pool.map(send, [count] * 50) for status in statuses}

    assert load(20) == {200}
    before = psutil.Process(process.pid).memory_info().rss
    assert load(80) == {200}
    assert psutil.Process(process.pid).memory_info().rss < before + (20 << 20)
    text = httpx.get(address + "/metrics", timeout=None).text
    assert 'softscope_requests_total{status="200"} 5000.0' in text


def _prometheus(binary):
    path = shutil.which(binary)
    if path is None:
        pytest.skip(f"{binary} is not installed (Debian: apt-get install prometheus)")
    return path


def test_promtool_accepts_the_alert_rules():
    check = [_prometheus("promtool"), "check", "rules", str(DOCS / "softscope-alerts.yml")]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert (done.returncode, "SUCCESS: 4 rules found" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.slow
def test_a_real_prometheus_scrapes_the_service_and_its_rules_fire(server, guard, world):
    """A Prometheus with our alert rules and one scrape per second, until it shows what the service counted."""
    address, _, folder = server
    for start in range(0, 100, 50):
        assert post(address, world.strange[start : start + 50]) == 200
    alarms = int(guard.alarms(world.strange).sum())
    port = free_port()
    rules, target = json.dumps(str(DOCS / "softscope-alerts.yml")), address.removeprefix("http://")
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{rules}]\n"
        f"scrape_configs: [{{job_name: softscope, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    command = [_prometheus("prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], cwd=folder, stderr=log)
    try:
        api = f"http://127.0.0.1:{port}/api/v1"
        said = {}
        for query, expected in {
            "sum(softscope_inputs_total)": "100",
            "sum(softscope_alarms_total)": str(alarms),
            "softscope_p_value_count": "100",
            'softscope_requests_total{status="200"}': "2",
            "softscope_drift_alarm": "1",
            f'softscope_guard_info{{sha256="{guard.sha256}"}}': "1",
            'count(ALERTS{alertname="SoftscopeDrift", alertstate="firing"})': "1",
        }.items():
            said[query] = _asked_until(process, f"{api}/query", query, expected)
            assert said[query] == expected, f"{query}\n{(folder / 'prometheus.log').read_text()}"
    finally:
        process.kill()
        process.wait()


def _asked_until(process, address, query, expected):
    """The value of a query once it is there, or the last one after two minutes of asking."""
    value = None
    for _ in range(600):
        assert process.poll() is None
        try:
            result = httpx.get(address, params={"query": query}).json()["data"]["result"]
            value = result[0]["value"][1] if result else None
        except (httpx.TransportError, KeyError, ValueError):
            value = None
        if value == expected:
            break
        time.sleep(0.2)
    return value
