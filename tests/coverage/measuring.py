"""Measure this process, and those that it forks: lines of Python with SlipCover, lines of C with gcov.

Only the workers of the suite and the gateways that are forked from a warm parent (tests/support/gateway/warm.py) come
by here. A process adds one line to `lines.jsonl` when it ends; one that is killed adds none.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from slipcover import FileMatcher, ImportManager, Slipcover, probe

from tests.coverage.kept import FORGET_NO_PROBE, IN_CODE, MARK, PLACE, PRODUCT, ROOT, kept

LINES = "lines.jsonl"
MODULES = "modules"


class Covered:
    """Finds the extension modules that were compiled for gcov; Python's own finders find all else."""

    def __init__(self, folder: Path) -> None:
        within = folder / MODULES
        files = {".".join(file.relative_to(within).parts): file for file in within.rglob("*.so")}
        self.files = {name.partition(".cpython")[0]: file for name, file in files.items()}

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Be a finder of `sys.meta_path`."""
        file = self.files.get(name)
        return importlib.util.spec_from_file_location(name, file) if file else None

    def write(self) -> None:
        """Add what this process counted to gcov's files, once."""
        for name in self.files.keys() & sys.modules.keys():
            ctypes.CDLL(str(self.files[name])).scopegate_counted()


class Matcher(FileMatcher):
    """Tells the product's modules from all others; SlipCover would resolve the path of each."""

    def matches(self, filename: Path | str | None) -> bool:
        """Tell whether a file is the product's."""
        return any(f"/{name}/" in str(filename) for name in PRODUCT) and super().matches(filename)


class Probes(Slipcover):
    """SlipCover, and what each code object was before it got probes: those cannot be pickled for Spark's workers."""

    def __init__(self, place: Path = PLACE) -> None:
        super().__init__(d_miss_threshold=FORGET_NO_PROBE)
        self._place = place
        self._plain: dict[CodeType, CodeType] = {}

    def instrument(self, co: CodeType | FunctionType, parent: CodeType | None = None) -> CodeType:
        """Return a code object with probes; of a module as it was kept, it takes a tenth of the time."""
        if IN_CODE and parent is None and isinstance(co, CodeType):
            found = kept(Path(co.co_filename), self._place)
            if found is not None:
                return self._probed(found.code, co)
        inner = parent or co  # what SlipCover lists of a module's outermost code figures.py finds out once for all
        probed: CodeType = super().instrument(co, inner)
        self._plain[probed] = co if isinstance(co, CodeType) else co.__code__
        return probed

    def _probed(self, marked: CodeType, plain: CodeType) -> CodeType:
        """Return code with probes where there are marks, in the functions within it as well."""
        consts = [
            self._probed(const, plain.co_consts[index]) if isinstance(const, CodeType) else self._probe(const, plain)
            for index, const in enumerate(marked.co_consts)
        ]
        probed = marked.replace(co_consts=tuple(consts))
        self._plain[probed] = plain
        return probed

    def _probe(self, const: Any, plain: CodeType) -> Any:
        """Return the probe, or what calls it, for its mark; any other constant as it is."""
        if not isinstance(const, tuple) or const[:1] != (MARK,):
            return const
        return probe.new(self, plain.co_filename, const[1], self.d_miss_threshold) if const[1:] else probe.signal

    def pickle_without(self) -> None:
        """Let Spark pickle functions as they were."""
        from pyspark.cloudpickle import cloudpickle

        table = cloudpickle.Pickler._dispatch_table
        reduce = table[CodeType]
        table[CodeType] = lambda code: reduce(self._plain.get(code, code))


class Measuring:
    """What this process has reached."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.probes = self._seen = Probes()
        self._covered = Covered(folder)
        ImportManager(self._seen, Matcher([ROOT / name for name in PRODUCT])).__enter__()
        sys.meta_path.insert(1, self._covered)  # type: ignore[arg-type]  # behind SlipCover's, which asks the others
        os.register_at_fork(after_in_child=self._seen._get_newly_seen)  # the parent writes down what it has reached
        atexit.register(self.write)

    def write(self) -> None:
        """Write down what this process has reached since it last did."""
        reached: Mapping[str, set[int]] = self._seen._get_newly_seen()
        line = json.dumps({str(Path(file).relative_to(ROOT)): sorted(lines) for file, lines in reached.items()})
        with (self.folder / LINES).open("ab", buffering=0) as lines:
            lines.write(line.encode() + b"\n")
        self._covered.write()


active: Measuring | None = None


def start(folder: str) -> None:
    """Measure from here on, and write to this folder when the process ends."""
    global active
    active = Measuring(ROOT / folder)
