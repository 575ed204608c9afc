"""The jars of Delta Lake, which pyspark lacks: pinned in a pom file, fetched with Maven."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridges.spark.errors import PipelineError

VARIABLE: Final = "SCOPEGATE_SPARK_JARS"
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


@dataclass(frozen=True)
class JarSet:
    """A set of jars that are used together."""

    name: str
    what: str
    pom: Path
    jars: tuple[str, ...]
    """The prefixes of the jars' names."""

    def found(self, folder: Path) -> list[Path]:
        """The jars of the set in a folder; empty if one is missing."""
        found = [sorted(folder.glob(f"{name}*.jar"))[-1:] for name in self.jars]
        return sorted(jar for jars in found for jar in jars) if all(found) else []

    def cache(self) -> Path:
        """The cache folder for this version of the pom file."""
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return base / "scopegate" / f"{self.name}-{hashlib.sha256(self.pom.read_bytes()).hexdigest()[:12]}"


DELTA: Final = JarSet(
    "spark-delta",
    "Delta Lake",
    Path(__file__).with_name("delta-pom.xml"),
    ("delta-spark_", "delta-storage-"),
)


def find_jars(jar_sets: Iterable[JarSet], folder: Path | None = None) -> list[Path]:
    """The jars from `folder`, from SCOPEGATE_SPARK_JARS, or from the cache, which Maven fills if it is empty.

    Raises `PipelineError` with the remedy.
    """
    named = folder or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    return [jar for jar_set in jar_sets for jar in _jars(jar_set, named)]


def _jars(jar_set: JarSet, named: Path | None) -> list[Path]:
    if jars := jar_set.found(named or jar_set.cache()):
        return jars
    if named is not None:
        contents = f"the {len(jar_set.jars)} jars of {jar_set.what}"
        raise PipelineError(f"{named} does not contain {contents}: run scopegate pipeline jars")
    return fetch(jar_set)


def fetch(jar_set: JarSet, folder: Path | None = None) -> list[Path]:
    """Fetch the jars with Maven into a folder or the cache: all of them or none. Raises `PipelineError`."""
    place = folder or jar_set.cache()
    maven = shutil.which("mvn")
    if maven is None:
        raise PipelineError(
            f"{jar_set.what} needs jars that pyspark lacks, and Maven, which fetches them, is missing: "
            f"apt-get install maven, or copy the jars of {jar_set.pom} to a folder and name it with --jars or "
            f"{VARIABLE}"
        )
    fresh = place.with_name(f"{place.name}.{os.getpid()}")
    fresh.mkdir(parents=True, exist_ok=True)
    try:
        command = [maven, "-B", "-q", "-f", str(jar_set.pom), _COPY, f"-DoutputDirectory={fresh}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode or not jar_set.found(fresh):
            lines = (done.stdout + done.stderr).strip().splitlines()
            raise PipelineError(f"Maven could not fetch the jars of {jar_set.pom}: {lines[0] if lines else 'no jars'}")
        place.mkdir(parents=True, exist_ok=True)
        for jar in jar_set.found(fresh):
            jar.replace(place / jar.name)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return jar_set.found(place)
