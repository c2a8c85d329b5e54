"""For processes that score: while the file $SOFTSCOPE_TEST_GATE is there, three outputs are written and no more.

So a test meets workers in the middle of their work, however fast or slow the machine is.
"""

import os
import time
from pathlib import Path

if "SOFTSCOPE_TEST_GATE" in os.environ:
    gate, rename = Path(os.environ["SOFTSCOPE_TEST_GATE"]), os.replace

    def replace(source: str, target: str) -> None:
        beside = Path(target).parent
        while Path(target).suffix == ".parquet" and gate.exists() and len(list(beside.glob("*.parquet"))) >= 3:
            time.sleep(0.05)
        rename(source, target)

    os.replace = replace
