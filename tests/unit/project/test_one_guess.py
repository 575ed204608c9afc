"""Every command and every section of the policy is in the module of its name, or in the table of docs/design.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

import click
import pytest
from pydantic import BaseModel

from gateway.cli.main import main
from policies.model.policy import Policy
from tests.support.project.parts import ROOT

TABLE = (ROOT / "docs/design.md").read_text().partition("### Where to look")[2].partition("\n#")[0]
SHARED = {"ListenerTls", "SinkTls", "Secret", "ScopeSection", "OAuthEntry"}
"""Sections of several keys, or of none: each is declared where its first key is."""


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield every command as it is written on a command line, and the module of its function."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context := click.Context(command)):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))
    elif command.callback is not None:
        yield " ".join(path), command.callback.__module__


COMMANDS = dict(commands(main))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_in_the_module_of_its_name(command: str) -> None:
    module = COMMANDS[command]
    path = f"{module.replace('.', '/')}.py"
    listed = any(f"`{command}`" in row and f"`{path}`" in row for row in TABLE.splitlines())
    assert module.rpartition(".")[2] in command.split() or listed, f"list {path} for {command} in docs/design.md"


def sections(value: object) -> Iterator[type[BaseModel]]:
    """Yield the sections in the type of a key."""
    if isinstance(value, type) and issubclass(value, BaseModel):
        yield value
    for part in get_args(value):
        yield from sections(part)


def keys(section: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], type[BaseModel]]]:
    """Yield every key that has a section, with the keys above it."""
    for name, field in section.model_fields.items():
        for each in sections(field.annotation):
            yield (*path, field.alias or name), each
            yield from keys(each, (*path, field.alias or name))


def test_a_section_is_in_the_module_of_its_key() -> None:
    found = {(".".join(path), each) for path, each in keys(Policy)}
    assert len(found) > 40
    wrong = {path: each.__module__ for path, each in found if each.__name__ not in SHARED
             and not re.match(rf"({path.replace('.', '|')})(_|$)", each.__module__.rpartition(".")[2])}  # fmt: skip
    assert wrong == {}
