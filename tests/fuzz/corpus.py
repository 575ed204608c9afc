"""The inputs that are kept: `corpus/TARGET.txt`, one a line in base64, the shortest first."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).with_name("corpus")


def read(target: str) -> list[bytes]:
    """Return the inputs of a target."""
    return [base64.b64decode(line) for line in (FOLDER / f"{target}.txt").read_text().splitlines()]


def write(target: str, inputs: Iterable[bytes]) -> None:
    """Keep these inputs, and no others."""
    ordered = sorted(set(inputs), key=lambda data: (len(data), data))
    (FOLDER / f"{target}.txt").write_text("".join(base64.b64encode(data).decode() + "\n" for data in ordered))


def unpack(target: str, folder: Path) -> None:
    """Write each input to a file of its own, as libFuzzer wants them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(read(target)):
        (folder / f"kept-{number}").write_bytes(data)
