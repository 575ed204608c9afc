"""The commands of the machine that the suite needs: which are there, and how apt brings the others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

ELSEWHERE = ":".join(("/usr/local/go/bin", "/usr/local/sbin", "/usr/sbin"))
"""Go's own archive is unpacked where few have it on their PATH; Debian has servers where only root has it."""


class PartMissing(Exception):
    """A part could not be had; the text says which one and what to do."""


@dataclass(frozen=True)
class Command:
    """A program of the machine and the Debian package that brings it."""

    name: str
    package: str
    java: int = 0

    def present(self) -> bool:
        """Tell whether the program is on the PATH, and recent enough where that matters."""
        path = which(self.name)
        return path is not None and (not self.java or java_version(path) >= self.java)

    def __str__(self) -> str:
        version = f" {self.java} or later" if self.java else ""
        return f"{self.name}{version}: apt-get install {self.package}"


BUILD_TOOLS = (
    Command("java", "openjdk-17-jdk-headless", java=17),
    Command("javac", "openjdk-17-jdk-headless", java=17),
    Command("mvn", "maven"),
    Command("node", "nodejs"),
    Command("npm", "npm"),
    Command("gcc", "gcc"),
    Command("tar", "tar"),
    Command("go", "golang-go"),
)
"""What the parts are made with."""
SERVERS = (
    Command("redis-server", "redis-server"),
    Command("chromium", "chromium"),
    Command("mosquitto", "mosquitto"),
    Command("nats-server", "nats-server"),
    Command("promtool", "prometheus"),
)


def which(name: str) -> str | None:
    """Return the path of a program, on the PATH or elsewhere."""
    return shutil.which(name) or shutil.which(name, path=ELSEWHERE)


def java_version(program: str) -> int:
    """Return the major version that `java` or `javac` reports, 0 when it does not run."""
    result = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r"(?:version \"|javac )(\d+)", result.stderr + result.stdout)
    return int(found[1]) if found else 0


def program(name: str) -> str:
    """Return the path of a command of the machine, or fail naming its package."""
    command = next(command for command in (*BUILD_TOOLS, *SERVERS) if command.name == name)
    if not command.present():
        raise PartMissing(str(command))
    return which(name) or name


def install_commands(commands: Iterable[Command]) -> Iterator[str]:
    """Install missing commands where apt may; yield a line for each that is still missing."""
    missing = [command for command in commands if not command.present()]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        packages = sorted({command.package for command in missing})
        print(f"parts: apt-get install {' '.join(packages)}", flush=True)
        apt_install(packages)
    yield from (str(command) for command in missing if not command.present())


def apt_install(packages: list[str]) -> None:
    """Try once with fresh package lists; what stays missing is reported by the caller."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        subprocess.run(["apt-get", "-qq", *step], env=environment, stdout=subprocess.DEVNULL, check=False)
