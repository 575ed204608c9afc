"""What a process of Spark imports to plan a read or to commit a micro-batch: Spark starts some for each query."""

from __future__ import annotations

import subprocess
import sys


def test_a_process_that_converts_nothing_has_no_pandas() -> None:
    program = "import sys, bridges.spark.datasource.source; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
