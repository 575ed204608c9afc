"""Builds the container image of deploy/Dockerfile and runs it, without any registry.

The base is made by debootstrap from wherever apt fetches packages, and kept in build/image with everything else, so
that no image of the machine is touched. The commands are installed when they are first needed: nothing else in the
suite needs them.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.project import dockerfile
from tests.support.project.commands import PartMissing, apt_install
from tests.support.project.parts import ROOT

WORK: Final = ROOT / "build" / "image"
BASE: Final = "localhost/scopegate-base"
IMAGE: Final = "localhost/scopegate-test"
_COMMANDS: Final = ("buildah", "debootstrap", "podman", "runc")
_PACKAGES: Final = "python3,python3-venv,python3-dev,ca-certificates"
_STORE: Final = (f"--root={WORK / 'store'}", f"--runroot={WORK / 'run'}", "--storage-driver=vfs")
_RUNTIME: Final = ("--runtime=runc", "--cgroup-manager=cgroupfs")
_UNPRIVILEGED: Final = (
    "--network=host", "--no-healthcheck", "--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL",
    "--security-opt=no-new-privileges", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
)  # fmt: skip
_OF_THE_MACHINE: Final = ("/etc/ssl/certs", "/etc/pip.conf")
"""What pip needs to know of this machine, where it is there."""


def install_commands() -> None:
    """Install the commands that are missing; raises PartMissing where apt may not."""
    if missing := [name for name in _COMMANDS if shutil.which(name) is None]:
        apt_install(missing)
    if missing := [name for name in _COMMANDS if shutil.which(name) is None]:
        raise PartMissing(f"apt-get install {' '.join(missing)}")


def _run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout.strip()


def buildah(*arguments: str) -> str:
    """Run buildah on our own store."""
    return _run("buildah", *_STORE, *arguments)


def podman(*arguments: str) -> str:
    """Run podman on our own store."""
    return _run("podman", *_STORE, *_RUNTIME, *arguments)


def make_base() -> None:
    """Make the base image, unless there is one from before."""
    if BASE in buildah("images", "--format", "{{.Name}}").split():
        return
    root, suite = WORK / "root", platform.freedesktop_os_release()["VERSION_CODENAME"]
    shutil.rmtree(root, ignore_errors=True)
    places = _run("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", f"Codename: {suite}")
    _run("debootstrap", "--variant=minbase", f"--include={_PACKAGES}", suite, str(root), places.splitlines()[0])
    container = buildah("from", "scratch")
    buildah("copy", "--quiet", container, str(root), "/")
    buildah("commit", "--quiet", "--rm", "--format=docker", container, BASE)
    shutil.rmtree(root)


def build() -> None:
    """Build the image."""
    mounts = [f"--volume={place}:{place}:ro" for place in _OF_THE_MACHINE if Path(place).exists()]
    options = ["--pull-never", "--isolation=chroot", "--format=docker", f"--build-arg=BASE={BASE}", *mounts]
    buildah("bud", *options, f"--file={dockerfile.PATH}", f"--tag={IMAGE}", str(ROOT))


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """A container that serves the policy of a folder, without privileges; its name."""
    name = f"scopegate-test-{folder.name}"
    podman("run", "--detach", f"--name={name}", *_UNPRIVILEGED, f"--volume={folder}:/etc/scopegate:ro", IMAGE)
    try:
        yield name
    finally:
        podman("rm", "--force", name)


def remove() -> None:
    """Remove the image; the base stays for the next time."""
    subprocess.run(["buildah", *_STORE, "rmi", "--force", IMAGE], capture_output=True, check=False)
