"""What a run has reached of the product: each file's lines, from what its processes wrote down and from gcov."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.coverage.kept import PRODUCT, ROOT, kept, made_of, sources
from tests.coverage.measuring import LINES, MODULES


class Figure(NamedTuple):
    """How many lines a file, or all files together, have, and how many of them were reached."""

    name: str
    reached: int
    lines: int

    @property
    def percent(self) -> float:
        """Reached lines of a hundred; a file without lines misses none."""
        return 100 * self.reached / self.lines if self.lines else 100.0


def python(folder: Path) -> list[Figure]:
    """Return a figure for each Python module of the product, those that nothing imported included."""
    reached: dict[str, set[int]] = defaultdict(set)
    for line in (folder / LINES).read_text().splitlines():
        for name, lines in json.loads(line).items():
            reached[name].update(lines)
    files = {str(source.relative_to(ROOT)): (kept(source) or made_of(source)).lines for source in sources()}
    return [Figure(name, len(lines & reached[name]), len(lines)) for name, lines in files.items()]


def c(folder: Path) -> list[Figure]:
    """Return a figure for each C source and header of the product; a line counts once, whatever includes it."""
    counts: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for notes in (folder / MODULES).rglob("*.gcno"):
        command = ["gcov", "--json-format", "--stdout", str(notes)]
        said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60).stdout
        for file in json.loads(said)["files"]:
            for line in file["lines"] if file["file"].startswith(PRODUCT) else ():
                counts[file["file"]][line["line_number"]] += line["count"]
    return [Figure(name, sum(map(bool, lines.values())), len(lines)) for name, lines in counts.items()]


def total(name: str, figures: Iterable[Figure]) -> Figure:
    """Return all of them as one."""
    every = list(figures)
    return Figure(name, sum(each.reached for each in every), sum(each.lines for each in every))


def floor() -> dict[str, float]:
    """Return the least percentages that a whole run may have, by language (pyproject.toml)."""
    table: dict[str, float] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scopegate"]["coverage"]
    return table


def below(totals: Iterable[Figure], least: dict[str, float]) -> list[str]:
    """Return a sentence for each figure that is below its floor."""
    return [
        f"coverage of {each.name} is {each.percent:.2f} %, below the floor of {least[each.name]} % (pyproject.toml)"
        for each in totals
        if each.percent < least[each.name]
    ]


def table(totals: Iterable[Figure], figures: Iterable[Figure]) -> list[str]:
    """Return the lines of the report: the totals, and the ten files of which the smallest part was reached."""
    head = [f"{each.name}: {each.percent:.2f} % of {each.lines} lines" for each in totals]
    least = sorted(figures, key=lambda each: (each.percent, each.name))[:10]
    rows = (f"  {each.percent:6.2f} %  {each.lines - each.reached:4} missed  {each.name}" for each in least)
    return [*head, "least covered:", *rows]
