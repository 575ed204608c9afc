"""Reads deploy/Dockerfile, so that tests can check it and run its steps without a container engine."""

from __future__ import annotations

import string
from typing import NamedTuple

from tests.support.project.parts import ROOT

PATH = ROOT / "deploy" / "Dockerfile"


class Instruction(NamedTuple):
    """One instruction, its lines joined."""

    name: str
    value: str


def stages() -> list[list[Instruction]]:
    """Return the instructions of each stage; the first is its FROM, with the value of an argument before it."""
    text = PATH.read_text().replace("\\\n", " ")
    lines = (line.strip() for line in text.splitlines())
    found: list[list[Instruction]] = []
    arguments: dict[str, str] = {}
    for line in lines:
        if not line or line.startswith("#"):
            continue
        name, _, value = line.partition(" ")
        if name == "ARG" and not found:
            argument, _, default = value.partition("=")
            arguments[argument] = default
            continue
        if name == "FROM":
            value = string.Template(value).substitute(arguments)
            found.append([])
        found[-1].append(Instruction(name, " ".join(value.split())))
    return found


def values(stage: list[Instruction], name: str) -> list[str]:
    """Return the values of all instructions of one name."""
    return [instruction.value for instruction in stage if instruction.name == name]
