"""The parts that the suite needs beside Python: commands of the machine, and servers and clients under build/parts.

`python -m tests.support.project.parts` installs what is missing (apt only as root) and is fast when nothing is.
It lists the parts that it cannot install, each with a way to get it, and exits 1. Versions are pinned here and in
tests/clients.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from proton import SSL

from tests.support.project.commands import (
    BUILD_TOOLS,
    SERVERS,
    PartMissing,
    apt_install,
    install_commands,
    program,
)
from tests.support.spark import spark_classes

ROOT = Path(__file__).resolve().parents[3]
PARTS = ROOT / "build" / "parts"
GO = {"GOTOOLCHAIN": "local", "GOFLAGS": "-trimpath", "CGO_ENABLED": "0"}
"""The environment of Go, the same for every program: so its standard library is compiled once."""
CLIENTS = ROOT / "tests" / "clients"
SPARK_KAFKA = "spark/pom.xml"
SPARK_DELTA = "../../bridges/spark/delta-pom.xml"
SPARK_CLASSES = "../support/spark/spark_classes.py"
KAFKA_CLASSES = "../support/servers/kafka_classes.py"
JMS_CLASSES = "../support/amqp/jms_classes.py"
ARTEMIS = "2.56.0"
TCK = "github.com/cloudevents/sdk-go/sql/v2@v2.16.2"
TCK_SUM = "h1:ufWHXiH1ZVd0WDbzTX9Nod9Sdq5wcnaqyL0iA1fBwYs="
OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.79.2"
OPERATOR_SUM = "h1:H/HCiMS4dXQyiFHw28PFlWMh15YUraL3MFe8u7k7dGA="
KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v5@v5.4.3"
NPM = ("package.json", "package-lock.json")
JMS = (
    "pom.xml", "JmsClient.java", "JmsClients.java", "Subscriber.java", "Transacted.java", "TransactedWork.java",
)  # fmt: skip
PROTONJ2 = ("pom.xml", "Transactions.java")
HUBS = ("pom.xml", "HubsClient.java", "FileCheckpoints.java")
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


@dataclass(frozen=True)
class Part:
    """A folder under build/parts: made once, made again when one of its `inputs` changes."""

    name: str
    inputs: tuple[str, ...]
    fetch: Callable[[Path], None]
    also: Callable[[], Iterable[str]] = tuple
    """What else is like an input, and known only when somebody asks."""

    @property
    def folder(self) -> Path:
        """Where the part lies when it is complete."""
        return PARTS / self.name

    def fingerprint(self) -> str:
        """Name what the part was made from: versions as text, files by content."""
        digest = hashlib.sha256()
        for text in self.inputs:
            file = CLIENTS / text
            digest.update(file.read_bytes() if file.is_file() else text.encode())
        for text in self.also():
            digest.update(text.encode())
        return digest.hexdigest()

    def complete(self) -> bool:
        """Tell whether the folder holds what this version of the part asks for."""
        stamp = self.folder / ".complete"
        return stamp.is_file() and stamp.read_text() == self.fingerprint()

    def make(self) -> None:
        """Fill a new folder and put it in place only when that succeeded."""
        fresh = self.folder.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        self.fetch(fresh)
        (fresh / ".complete").write_text(self.fingerprint())
        shutil.rmtree(self.folder, ignore_errors=True)
        fresh.rename(self.folder)


def run(*command: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    """Run a step quietly; on failure raise with the end of what it printed."""
    own = None if env is None else {**os.environ, **env}
    result = subprocess.run(command, cwd=cwd, env=own, capture_output=True, text=True, check=False)
    if result.returncode:
        tail = (result.stdout + result.stderr).strip()[-800:]
        raise PartMissing(f"`{' '.join(command[:3])} ...` failed: {tail}")


def maven_jars(file: str) -> Callable[[Path], None]:
    """Return a fetch that copies all jars of a pom file; its path starts at tests/clients."""

    def fetch(folder: Path) -> None:
        pom = str((CLIENTS / file).resolve())
        run("mvn", "-B", "-q", "-f", pom, f"{COPY}:copy-dependencies", f"-DoutputDirectory={folder}")

    return fetch


def fetch_artemis(folder: Path) -> None:
    """Copy the distribution's archive from Maven and unpack it."""
    artifact = f"org.apache.artemis:apache-artemis:{ARTEMIS}:tar.gz:bin"
    where = f"-DoutputDirectory={folder}"
    run("mvn", "-B", "-q", f"{COPY}:copy", f"-Dartifact={artifact}", where, cwd=folder)
    archive = next(folder.glob("*.tar.gz"))
    run("tar", "xzf", str(archive), "--strip-components=1", "-C", str(folder))
    archive.unlink()


def compile_jms_clients(folder: Path) -> None:
    """Compile our small command-line clients against the unmodified library; a jar, for Java archives no folders."""
    with tempfile.TemporaryDirectory() as classes:
        run("javac", "-cp", f"{PARTS / 'jms'}/*", "-d", classes, *map(str, sorted((CLIENTS / "jms").glob("*.java"))))
        shutil.make_archive(str(folder / "clients"), "zip", classes)
    (folder / "clients.zip").rename(folder / "clients.jar")


def java_client(name: str) -> Callable[[Path], None]:
    """Return a fetch that compiles our client beside the jars of an unmodified library."""

    def compile_client(folder: Path) -> None:
        maven_jars(f"{name}/pom.xml")(folder)
        sources = sorted((CLIENTS / name).glob("*.java"))
        run("javac", "-cp", f"{folder}/*", "-d", str(folder / "classes"), *map(str, sources))

    return compile_client


def archive_jms_classes(folder: Path) -> None:
    """Run the client whose classes the suite's clients need not load again."""
    run(sys.executable, "-m", "tests.support.amqp.jms_classes", str(folder), cwd=ROOT)


def npm_modules(client: str) -> Callable[[Path], None]:
    """Return a fetch that installs what package-lock.json of a client pins, by integrity."""

    def fetch(folder: Path) -> None:
        for file in ("package.json", "package-lock.json"):
            shutil.copy(CLIENTS / client / file, folder)
        run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=folder)

    return fetch


def go_client(name: str) -> Part:
    """The part of a client in Go, built with the modules that its go.sum pins."""

    def build(folder: Path) -> None:
        command = program("go"), "build", "-mod=readonly", "-o", str(folder / "client"), "."
        run(*command, cwd=CLIENTS / name, env=GO)

    return Part(name, tuple(f"{name}/{file}" for file in ("go.mod", "go.sum", "main.go")), build)


def go_module(name: str, checksum: str, folder: Path) -> Path:
    """Fetch a Go module, from wherever Go fetches modules; returns where its files are."""
    own = {**os.environ, **GO}
    command = [program("go"), "mod", "download", "-json", name]
    result = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)
    module = json.loads(result.stdout or "{}")
    if result.returncode or module.get("Sum") != checksum:
        raise PartMissing(f"`go mod download {name}` failed: {(result.stdout + result.stderr).strip()[-800:]}")
    return Path(module["Dir"])


def build_object_store(folder: Path) -> None:
    """Build the S3 server, of the modules that go.sum pins."""
    command = program("go"), "build", "-mod=readonly", "-o", str(folder / "server"), "."
    run(*command, cwd=CLIENTS / "s3-go", env=GO)


def fetch_cesql_tck(folder: Path) -> None:
    """Copy the test cases of CESQL out of the Go module that has them."""
    for file in sorted(Path(go_module(TCK, TCK_SUM, folder), "test", "tck").glob("*.yaml")):
        shutil.copyfile(file, folder / file.name)


def install_kubernetes_schemas(folder: Path) -> None:
    """Install the package that has the JSON schemas of Kubernetes, and a validator, beside everything else."""
    options = ["--quiet", "--require-hashes", "--no-deps", "--only-binary", ":all:", "--target", str(folder)]
    lock = str(CLIENTS / "kubernetes" / "requirements.lock")
    run(sys.executable, "-m", "pip", "install", *options, "-r", lock)


def install_duckdb_iceberg(folder: Path) -> None:
    """Install the duckdb whose extension for Iceberg is on PyPI, beside everything else."""
    options = ["--quiet", "--require-hashes", "--no-deps", "--only-binary", ":all:", "--target", str(folder)]
    lock = str(CLIENTS / "duckdb-iceberg" / "requirements.lock")
    run(sys.executable, "-m", "pip", "install", *options, "-r", lock)


def fetch_kustomize(folder: Path) -> None:
    """Build kustomize, and copy the schema of a ServiceMonitor out of the module of Prometheus' operator."""
    run(program("go"), "install", KUSTOMIZE, cwd=folder, env={**GO, "GOBIN": str(folder)})
    crds = Path(go_module(OPERATOR, OPERATOR_SUM, folder), "example", "prometheus-operator-crd")
    shutil.copyfile(crds / "monitoring.coreos.com_servicemonitors.yaml", folder / "servicemonitors.yaml")


def archive_spark_classes(folder: Path) -> None:
    """Run the Spark whose classes the suite's Sparks need not load again."""
    run(sys.executable, "-m", spark_classes.__name__, cwd=ROOT, env=spark_classes.making(folder))
    if not (folder / spark_classes.NAME).exists():
        raise PartMissing("this Java writes no archive of classes: take the one of openjdk-17-jdk-headless")


def archive_kafka_classes(folder: Path) -> None:
    """Run the broker whose classes the suite's brokers need not load again."""
    run(sys.executable, "-m", "tests.support.servers.kafka_classes", str(folder), cwd=ROOT)


def jar_origins(*parts: str) -> Iterator[str]:
    """What an archive of classes was made for: the version of Java, and the jars of parts with their times.

    Java compares both.
    """
    yield subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    for part in parts:
        for jar in sorted((PARTS / part).resolve().glob("*.jar")):
            about = jar.stat()
            yield f"{jar} {about.st_size} {about.st_mtime_ns}"


JAVA = (
    Part("kafka", ("kafka/pom.xml",), maven_jars("kafka/pom.xml")),
    Part("kafka-classes", (KAFKA_CLASSES,), archive_kafka_classes, lambda: jar_origins("kafka")),
    Part("spark-kafka", (SPARK_KAFKA,), maven_jars(SPARK_KAFKA)),
    Part("spark-delta", (SPARK_DELTA,), maven_jars(SPARK_DELTA)),
    Part("artemis", (ARTEMIS,), fetch_artemis),
    Part("jms", ("jms/pom.xml",), maven_jars("jms/pom.xml")),
    Part("jms-clients", tuple(f"jms/{file}" for file in JMS), compile_jms_clients),
    Part("jms-classes", (JMS_CLASSES,), archive_jms_classes, lambda: jar_origins("jms", "jms-clients")),
    Part("spark-classes", (SPARK_CLASSES,), archive_spark_classes, spark_classes.origins),
    Part("eventhubs-java", tuple(f"eventhubs-java/{file}" for file in HUBS), java_client("eventhubs-java")),
    Part("protonj2", tuple(f"protonj2/{file}" for file in PROTONJ2), java_client("protonj2")),
)
"""Made one after the other: Maven's processes share a folder, and archives of classes need the jars before them."""
OTHERS = (
    Part("cesql-tck", (TCK, TCK_SUM), fetch_cesql_tck),
    Part("kubernetes", ("kubernetes/requirements.lock",), install_kubernetes_schemas),
    Part("duckdb-iceberg", ("duckdb-iceberg/requirements.lock",), install_duckdb_iceberg),
    Part("kustomize", (KUSTOMIZE, OPERATOR, OPERATOR_SUM), fetch_kustomize),
    Part("object-store", tuple(f"s3-go/{file}" for file in ("go.mod", "go.sum", "main.go")), build_object_store),
    Part("rhea", ("rhea/package.json", "rhea/package-lock.json"), npm_modules("rhea")),
    Part("eventhubs-js", tuple(f"eventhubs-js/{file}" for file in NPM), npm_modules("eventhubs-js")),
    go_client("eventhubs-go"),
    go_client("go-amqp"),
)
ALL = (*JAVA, *OTHERS)


def folder(name: str) -> Path:
    """Return a part's folder for a fixture; a missing part fails the test and says what to run."""
    part = next(part for part in ALL if part.name == name)
    if not part.complete():
        raise PartMissing(f"{part.folder.relative_to(ROOT)} is missing or outdated: run `make parts`")
    return part.folder


def install_proton_tls() -> Iterator[str]:
    """Build proton again where it was built without OpenSSL: its clients need TLS."""
    if SSL.present():
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        apt_install(["libssl-dev"])
        rebuild("python-qpid-proton")
    probe = [sys.executable, "-c", "import sys, proton; sys.exit(not proton.SSL.present())"]
    if subprocess.run(probe, check=False).returncode:
        yield "TLS in proton's client: apt-get install libssl-dev, then make clean and again"


def rebuild(package: str) -> None:
    """Install a package of the lock again from source, without pip's cache of what it built before."""
    found = re.search(rf"(?ms)^{package}==.*?[^\\]$", (ROOT / "requirements.lock").read_text())
    assert found, package
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as lock:
        lock.write(found[0])
        lock.flush()
        options = "--quiet --force-reinstall --no-cache-dir --no-deps --no-build-isolation --require-hashes"
        subprocess.run(
            [sys.executable, "-m", "pip", "install", *options.split(), "-r", lock.name], check=False
        )


def install_parts(parts: Iterable[Part]) -> Iterator[str]:
    """Make every part that is not complete; yield a line for each that could not be made."""
    for part in parts:
        if part.complete():
            continue
        print(f"parts: making build/parts/{part.name}", flush=True)
        try:
            part.make()
        except PartMissing as error:
            yield f"build/parts/{part.name}: {error}"


def install_side_by_side() -> list[str]:
    """Install the servers while the parts are made; return a line for each that is missing."""
    with ThreadPoolExecutor() as pool:
        steps = [(install_commands, SERVERS), (install_parts, JAVA), (install_parts, OTHERS)]
        running = [pool.submit(lambda step=step, what=what: list(step(what))) for step, what in steps]
        return [line for each in running for line in each.result()]


def main() -> int:
    """Install what may be installed; print exactly what is left."""
    missing = list(install_commands(BUILD_TOOLS)) or [*install_proton_tls(), *install_side_by_side()]
    if missing:
        print("The suite needs these and could not install them:", *missing, sep="\n  ", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
