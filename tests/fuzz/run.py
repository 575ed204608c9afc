"""`python -m tests.fuzz.run TARGET ARGUMENTS`: one target under libFuzzer, in this process.

`python -m tests.fuzz` starts it, with what it needs in its environment.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

from tests.fuzz.targets import load


def main(name: str, arguments: list[str]) -> None:
    """Fuzz; libFuzzer ends the process."""
    with atheris.instrument_imports(include=["gateway", "bridges", "policies"]):
        target = load(name)
    words = Path(f"{name}.dict").absolute()
    words.write_text("".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in target.words))
    atheris.Setup([sys.argv[0], *arguments, f"-dict={words}"], target.one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
