"""The extension modules compiled once more with other flags, beside the installed ones."""

from __future__ import annotations

import subprocess
import sysconfig
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tests.support.project.parts import ROOT


def modules() -> dict[str, str]:
    """Return the extension modules that pyproject.toml names, each with its source."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    return {each["name"]: each["sources"][0] for each in found}


def compile_modules(target: Path, flags: Sequence[str], link: Sequence[str] | None = None) -> None:
    """Compile the modules into a folder, laid out as packages; an object is beside its module.

    The linker gets the same flags, unless `link` names others. Raises subprocess.CalledProcessError: the compiler or
    the linker failed; what they said is on stderr.
    """
    headers = f"-I{sysconfig.get_path('include')}"
    for name, source in modules().items():
        module = target.joinpath(*name.split(".")).with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
        module.parent.mkdir(parents=True, exist_ok=True)
        made = module.parent / f"{Path(source).stem}.o"
        _gcc("-O2", "-fPIC", "-pthread", headers, *flags, "-c", source, "-o", str(made))
        _gcc("-shared", "-pthread", *(flags if link is None else link), str(made), "-o", str(module))


def _gcc(*arguments: str) -> None:
    """Names of sources in what the compiler writes are relative to the root."""
    subprocess.run(["gcc", *arguments], cwd=ROOT, check=True, timeout=600)
