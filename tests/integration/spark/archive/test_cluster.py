"""Archive, verify and replay on a Spark of one master and two workers, with our wheel installed (issue 7, 7).

`make test` does the same in one Java, with the package that a wheel has: a cluster is five of them, and in `make soak`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest

from bridges.spark.archive.store import STAGING, Archive
from bridges.spark.archive.verification import verify
from tests.support.gateway.process import Process, fresh_folder, ports, wait_until
from tests.support.project import wheel
from tests.support.project.parts import PARTS, ROOT
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import SMALL, consumed, produce, settled
from tests.support.spark.spark_classes import options

sys.path.insert(0, str(ROOT / "scripts"))
import build_backend  # type: ignore[import-not-found]

sys.path.pop(0)


class Cluster(NamedTuple):
    """Where it is, and where its workers keep what they run."""

    master: str
    work: Path
    unshared: Path
    """A folder that is another, empty one for the second worker: as where nothing is mounted on one machine."""

    def used(self) -> set[str]:
        """The workers that have run something."""
        return {path.parents[2].name for path in self.work.glob("*/app-*/*/stderr")}


FAST = options(PARTS / "spark-classes")
EXECUTORS = [
    *("--conf", "spark.executor.memory=512m", "--conf", "spark.cores.max=2"),
    *("--conf", f"spark.executor.extraJavaOptions={FAST}"),
]
SPECULATION = ["--conf", "spark.speculation=true", "--conf", "spark.speculation.interval=50ms"]
HERE = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    # nobody submits an application by HTTP, and that has one port for all masters of a machine
    "SPARK_DAEMON_JAVA_OPTS": f"{FAST} -Dspark.master.rest.enabled=false",
}
IN_ONE_DRIVER = """
import json, sys
from unittest.mock import patch
from click.testing import CliRunner
from pyspark.sql import SparkSession
from scopegate.gateway.cli.main import main
with patch.object(SparkSession, "stop", lambda _: None):
    for call in json.loads(sys.argv[1]):
        done = CliRunner().invoke(main, ["pipeline", *call])
        if done.exit_code:
            sys.exit(f"{call}: {done.output} {done.exception!r}")
SparkSession.getActiveSession().stop()
"""
"""Commands with one Spark: a driver and its executors take longer to start than these take to run."""


@pytest.fixture(scope="module")
def installed() -> Path:
    """The Python of an environment where our wheel is installed; the libraries are those of the suite's."""
    python, packages = environment("wheel")
    with zipfile.ZipFile(wheel.built()) as archive:
        archive.extractall(packages)
    return python


@pytest.fixture(scope="module")
def staged() -> Path:
    """The Python of an environment with what a wheel is built from, and the C modules that are there already."""
    python, packages = environment("staged")
    build_backend.stage(ROOT, packages)
    for name in build_backend.FOLDERS:
        for module in (ROOT / name).rglob("*.so"):
            shutil.copy(module, packages / build_backend.PACKAGE / module.relative_to(ROOT))
    return python


def environment(name: str) -> tuple[Path, Path]:
    """A Python, and where its packages are."""
    place = fresh_folder(name)
    venv.create(place / "venv", symlinks=True)
    (packages,) = (place / "venv" / "lib").glob("python*/site-packages")
    # as a path only: what is installed there for editing, this tree above all, is not seen
    (packages / "libraries.pth").write_text(sysconfig.get_paths()["purelib"])
    return place / "venv" / "bin" / "python", packages


@pytest.fixture(scope="module")
def cluster(installed: Path) -> Iterator[Cluster]:
    """A master and two workers of one core each, without a script of Spark's: the wheel has none for them."""
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    env = {**HERE, "PYSPARK_PYTHON": str(installed)}
    work, unshared = fresh_folder("spark-workers"), fresh_folder("unshared")
    mounted = 'mount -t tmpfs none "$0" && exec "$@"'
    apart = ["unshare", "--mount", "--map-root-user", "sh", "-c", mounted, str(unshared)]
    port, *others = ports(5)
    at = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(others[0])]
    head = Process("spark-master", [program, "org.apache.spark.deploy.master.Master", *at], env=env, cwd=work)
    workers: list[Process] = []
    try:
        head.wait_ready(lambda: "New state: ALIVE" in head.text(), "Spark's master", 120)
        for number in (1, 2):
            at = ["--host", "127.0.0.1", "--webui-port", str(others[number]), "--cores", "1", "--memory", "700m"]
            start = [*(apart if number == 2 else ()), program, "org.apache.spark.deploy.worker.Worker", *at]
            start += ["--work-dir", str(work / str(number))]
            worker = Process(f"spark-worker-{number}", [*start, f"spark://127.0.0.1:{port}"], env=env, cwd=work)
            workers.append(worker)
        for worker in workers:
            worker.wait_ready(lambda: "Successfully registered" in worker.text(), "a worker", 120)  # noqa: B023
        yield Cluster(f"spark://127.0.0.1:{port}", work, unshared)
    finally:
        for process in (*workers, head):
            process.end()


def command(python: Path, *arguments: object) -> list[str]:
    """`scopegate pipeline` as it is installed there."""
    return [str(python), "-c", "from scopegate.gateway.cli.main import main; main()", "pipeline", *map(str, arguments)]


def run(python: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `scopegate pipeline` as it is installed there."""
    return far_from_here(python, *command(python, *arguments))


def far_from_here(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the environment without a way to this tree."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env = {**own, **HERE, "PYSPARK_PYTHON": str(python)}
    return subprocess.run(words, capture_output=True, text=True, cwd=python.parent, env=env, timeout=600, check=False)


def test_what_a_wheel_has_is_enough(kafka_broker: KafkaBroker, staged: Path, tmp_path: Path) -> None:
    """Commands and workers find each other's modules below `scopegate`."""
    archived_and_replayed(kafka_broker, staged, ("--master", "local[2]", *SMALL), tmp_path, 200)


@pytest.mark.soak
def test_archive_verify_and_replay_on_a_cluster(
    kafka_broker: KafkaBroker, installed: Path, cluster: Cluster, tmp_path: Path
) -> None:
    archived_and_replayed(kafka_broker, installed, ("--master", cluster.master, *SMALL, *EXECUTORS), tmp_path, 2000)
    assert cluster.used() == {"1", "2"}


def archived_and_replayed(broker: KafkaBroker, python: Path, spark: Sequence[str], archive: Path, events: int) -> None:
    """Archive, verify and replay, and compare what comes of it."""
    topic, again = broker.create_topic(partitions=4), broker.create_topic(partitions=4)
    produce(broker, topic, events, 4)
    where = ("--kafka", broker.bootstrap)
    calls = [
        ("archive", str(archive), *where, "--topic", topic, "--once", "--offsets", "1000", *spark),
        ("verify", str(archive)),
        ("replay", str(archive), "--from", topic, *where, "--topic", again, *spark),
    ]
    done = far_from_here(python, str(python), "-c", IN_ONE_DRIVER, json.dumps(calls))
    assert done.returncode == 0, done.stderr
    verdict = verify(Archive(archive))
    assert (verdict.rows, verdict.problems) == (events, ())
    settled(broker, again)
    seen = [(record.partition, record.key, record.value, record.headers) for record in consumed(broker, again)]
    wanted = [(record.partition, record.key, record.value, record.headers) for record in consumed(broker, topic)]
    assert seen == wanted


def executors(work: Path, worker: int) -> list[int]:
    """The processes of a worker's executors."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            ours = b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words
            if ours and (path.parent / "cwd").resolve().is_relative_to(work / str(worker)):
                found.append(int(path.parent.name))
    return found


@pytest.mark.soak
@pytest.mark.parametrize("moment", ["*.token", "*/*.parquet"], ids=["tasks-start", "files-are-written"])
def test_an_executor_that_dies_in_a_commit_costs_no_event(
    kafka_broker: KafkaBroker, installed: Path, cluster: Cluster, tmp_path: Path, moment: str
) -> None:
    """Killed while tasks write, with speculation on: what its attempts wrote is in no commit, and nothing is lost."""
    topic, archive = kafka_broker.create_topic(partitions=4), tmp_path / "archive"
    produce(kafka_broker, topic, 40_000, 4)
    words = command(installed, "archive", archive, "--kafka", kafka_broker.bootstrap, "--topic", topic, "--once")
    words += map(str, ["--offsets", "20000", "--master", cluster.master, *SMALL, *EXECUTORS, *SPECULATION])
    job = Process("archive", words, env={**HERE, "PYSPARK_PYTHON": str(installed)}, cwd=installed.parent)
    try:
        wait_until(lambda: any((archive / STAGING).glob(moment)) or not job.alive, "tasks that write", 120)
        for pid in executors(cluster.work, 1):
            os.kill(pid, signal.SIGKILL)
        assert job.wait(300) == 0, job.tail()
    finally:
        job.discard()
    assert (verify(Archive(archive)).rows, verify(Archive(archive)).problems) == (40_000, ())
    assert not (archive / STAGING).exists()


@pytest.mark.soak
def test_a_worker_that_lacks_the_folder_costs_no_event(
    kafka_broker: KafkaBroker, installed: Path, cluster: Cluster, tmp_path: Path
) -> None:
    """Half of the events would be in a folder that nobody looks into: the commit fails, and the next run has them."""
    topic, archive = kafka_broker.create_topic(partitions=4), cluster.unshared / "archive"
    produce(kafka_broker, topic, 800, 4)
    what = ("--kafka", kafka_broker.bootstrap, "--topic", topic, "--once", "--offsets", "1000", *SMALL)
    done = run(installed, "archive", archive, *what, "--master", cluster.master, *EXECUTORS)
    assert done.returncode == 1, done.stdout
    said = done.stderr.splitlines()[-1]
    assert said.startswith("a worker of Spark cannot reach the archive: ")
    assert str(cluster.work / "2") in said
    assert str(archive) in said
    assert (verify(Archive(archive)).commits, verify(Archive(archive)).rows) == (0, 0)
    done = run(installed, "archive", archive, *what, "--master", "local[2]")
    assert done.returncode == 0, done.stderr
    assert (verify(Archive(archive)).rows, verify(Archive(archive)).problems) == (800, ())
