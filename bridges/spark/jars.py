"""The jars of Spark's own Kafka source, which pyspark lacks: four, pinned in `pom.xml`, fetched once with Maven."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from bridges.spark.errors import PipelineError

POM: Final = Path(__file__).with_name("pom.xml")
VARIABLE: Final = "SCOPEGATE_SPARK_JARS"
_COUNT: Final = 4
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def kafka_jars(folder: Path | None = None) -> list[Path]:
    """The jars: in `folder`, in the one that SCOPEGATE_SPARK_JARS names, or in the cache, filled with Maven if empty.

    Raises `PipelineError`, which says what to do.
    """
    named = folder or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    place = named or cache()
    jars = sorted(place.glob("*.jar"))
    if len(jars) >= _COUNT:
        return jars
    if named is not None:
        raise PipelineError(f"{named} does not hold the {_COUNT} jars of Spark's Kafka source: scopegate pipeline jars")
    return fetch(place)


def cache() -> Path:
    """Where the jars of this version's pom.xml are kept."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "scopegate" / f"spark-kafka-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"


def fetch(place: Path) -> list[Path]:
    """Fetch the jars with Maven into a folder, which has all of them or is not changed."""
    maven = shutil.which("mvn")
    if maven is None:
        raise PipelineError(
            f"Spark's Kafka source needs jars that pyspark lacks, and Maven, which fetches them, is missing: "
            f"apt-get install maven, or copy the jars of {POM} to a folder and name it with --jars or {VARIABLE}"
        )
    fresh = place.with_name(f"{place.name}.{os.getpid()}")
    fresh.mkdir(parents=True, exist_ok=True)
    try:
        command = [maven, "-B", "-q", "-f", str(POM), _COPY, f"-DoutputDirectory={fresh}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode or len(list(fresh.glob("*.jar"))) < _COUNT:
            lines = (done.stdout + done.stderr).strip().splitlines()
            raise PipelineError(f"Maven could not fetch the jars of {POM}: {lines[0] if lines else 'no jars'}")
        place.mkdir(parents=True, exist_ok=True)
        for jar in fresh.glob("*.jar"):
            jar.replace(place / jar.name)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return sorted(place.glob("*.jar"))
