"""One case of the bench in this process: `python -m tests.bench.single CASE OUTPUT [OPTION…]`."""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.bench.cases.catalogue import CASES
from tests.bench.effort import BRIEF, EACH, QUICK, Effort
from tests.bench.running import NotMeasured


def main(name: str, output: str, *options: str) -> int:
    """Prints each figure when it is there; writes all of them, and why the others are not.

    `--quick`, `--each` and `--brief` are efforts. `--once`: one round, and nothing is printed. `--shape`: what
    messages look like, in place of the usual shapes.
    """
    figures: list[dict[str, Any]] = []
    failed: str | None = None
    try:
        efforts = {"--quick": QUICK, "--each": EACH, "--brief": BRIEF, "--once": Effort(rounds=1, long_rounds=1)}
        effort = next((found for option, found in efforts.items() if option in options), Effort())
        prefix = "--shape="
        if chosen := tuple(option.removeprefix(prefix) for option in options if option.startswith(prefix)):
            effort = replace(effort, shapes=chosen)
        for figure in CASES[name](effort):
            if "--once" not in options:
                print(figure.line(), flush=True)
            figures.append(figure.as_json())
    except Exception as error:  # of Spark, of Java, of Kafka: it must not end the other cases
        failed = str(error) or type(error).__name__
        if not isinstance(error, NotMeasured):
            traceback.print_exc()
    Path(output).write_text(json.dumps({"figures": figures, "failed": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
