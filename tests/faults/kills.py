"""kill -9 at random moments: every file is whole or absent, and the next run ends with those of an undisturbed one.

    python -m tests.faults.kills --kills 200 --seed 0          (part of `make faults`)

Commands run in forks of this process, which has imported everything: moments fall on their work, not on imports.
"""

import argparse
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow.parquet
import sklearn.ensemble

from softscope import FeatureSet, Guard, Head
from softscope.cli import main as softscope_main
from softscope.scoring import score

from .campaign import share_out
from .formats import onnx_file

PRELOADED = (onnxruntime, pyarrow.parquet, sklearn.ensemble)
KILLS_A_ROUND = 3
_FINISHED = (0, 3)  # 3: more alarms than promised


def make_inputs(folder: Path) -> None:
    """Head, features, guard, an ONNX model and images, so small that a command takes about a second."""
    rng = np.random.default_rng(0)
    labels = np.arange(1500) % 4
    z = (3 * np.eye(4, 16)[labels] + rng.normal(size=(1500, 16))).astype(np.float32)
    test = FeatureSet(z[:600] + np.float32(0.1), labels[:600])
    Head(np.eye(4, 16, dtype=np.float32)).save(folder / "head.safetensors")
    FeatureSet(z, labels).save(folder / "train.safetensors")
    test.save(folder / "test.safetensors")
    FeatureSet(z[:300] + 2).save(folder / "far.safetensors")
    (folder / "new").mkdir()
    for number in range(8):
        np.save(folder / "new" / f"{number}.npy", np.tile(z + np.float32(number), (8, 1)))
    Guard.fit(Head.load(folder / "head.safetensors"), (z, labels), test).save(folder / "guard.safetensors")
    onnx_file(folder)
    np.savez(folder / "i.npz", images=rng.integers(0, 256, (20_000, 8, 8, 1), np.uint8), labels=np.arange(20_000) % 3)


def commands(given: Path) -> dict[str, str]:
    """Command lines that write into the folder they run in."""
    fit = f"--head {given}/head.safetensors --train {given}/train.safetensors"
    return {
        "demo": "demo -q -o .",
        "diagnose": f"diagnose {fit} --test {given}/test.safetensors --ood far={given}/far.safetensors -q --force -o .",
        "extract": f"extract {given}/m.onnx {given}/i.npz -q -o .",
        "guard fit": f"guard fit {fit} --calibration {given}/test.safetensors -o guard.safetensors",
        "guard score": f"guard score {given}/guard.safetensors {given}/new/0.npy -q --batch 200 -o scores.parquet",
        "score": f"score {given}/new --guard {given}/guard.safetensors --workers 1 -q -o scores",
        "watch": f"watch {given}/guard.safetensors {given}/new --state state.safetensors",
    }


def start(words: str, folder: Path) -> int:
    """A fork that runs the command in `folder`; its process id."""
    folder.mkdir(exist_ok=True)
    if child := os.fork():
        return child
    try:
        os.chdir(folder)
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        sys.argv = ["softscope", *words.split()]
        softscope_main()
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 0)
    finally:
        os._exit(0 if sys.exc_info()[0] is None else 1)


def finish(words: str, folder: Path) -> float:
    """Run the command to its end; the seconds it took."""
    began = time.monotonic()
    _, status = os.waitpid(start(words, folder), 0)
    if os.waitstatus_to_exitcode(status) not in _FINISHED:
        raise AssertionError(f"{words}: exit code {os.waitstatus_to_exitcode(status)}")
    return time.monotonic() - began


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but locks and what begins with a dot, without what differs between two runs: dates and seconds."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            files[name] = _lasting(path)
    return files


def _lasting(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".json":
        value = json.loads(content)
        return json.dumps(
            {name: value[name] for name in sorted(value) if name not in ("provenance", "skipped")}
        ).encode()
    if path.suffix == ".html":
        return re.sub(rb'<dl class="provenance">.*?</dl>|<span class="when">[^<]*', b"", content, flags=re.DOTALL)
    return content


def round_of(words: str, folder: Path, calm: dict[str, bytes], seconds: float, moments: random.Random) -> list[str]:
    """Kill the command a few times, look at what it left, then let it end; what is wrong."""
    wrong = []
    for _ in range(KILLS_A_ROUND):
        child = start(words, folder)
        time.sleep(moments.uniform(0, seconds))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        growing = {"state.safetensors"}  # whole at every moment, and different as the stream goes on
        left = {name: content for name, content in contents(folder).items() if name not in growing}
        wrong += [f"{words}: {name} is there and not whole" for name in left if left[name] != calm.get(name)]
    finish(words, folder)
    ended = contents(folder)
    wrong += [
        f"{words}: {name} differs at the end"
        for name in calm.keys() | ended.keys()
        if ended.get(name) != calm.get(name)
    ]
    wrong += [f"{words}: {path.name} stayed" for path in folder.rglob(".*.part")]
    return wrong


def run(kills: int, name: str, seed: int = 0) -> list[str]:
    """At least `kills` kills of one command; what is wrong."""
    assert score.__kwdefaults__ is not None
    score.__kwdefaults__["unit_bytes"] = 100_000  # many outputs
    wrong = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_inputs(folder)
        words, own = commands(folder)[name], folder / name.replace(" ", "-")
        seconds = finish(words, own)
        calm = contents(own)
        moments = random.Random(f"{seed} {name}")
        rounds = -(-kills // KILLS_A_ROUND)
        for number in range(rounds):
            wrong += round_of(words, folder / f"{own.name}-{number}", calm, seconds, moments)
        print(f"{rounds * KILLS_A_ROUND} kills within {seconds:.1f} s each, {len(wrong)} wrong")
    return wrong


def main() -> None:
    """Kill, compare, and list what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="COMMAND")
    given = parser.parse_args()
    if given.only is None:
        names = commands(Path())
        each = -(-given.kills // len(names))
        sys.exit(share_out("tests.faults.kills", names, "--kills", str(each), "--seed", str(given.seed)))
    wrong = run(given.kills, given.only, given.seed)
    print("\n".join(wrong) or "every file as promised")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
