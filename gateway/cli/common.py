"""What several commands need: the policy file as an argument, a policy that loads or ends the command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from gateway.plural import counted

if TYPE_CHECKING:
    from policies.rules import CompiledPolicy

FILE: Final = click.argument("file", type=click.Path(path_type=Path))
"""The argument FILE: a policy file."""


def fail(message: str) -> NoReturn:
    """Print a message on stderr and exit with code 1."""
    click.echo(message, err=True)
    sys.exit(1)


def load_policy(file: Path, *, with_secrets: bool = True) -> CompiledPolicy:
    """Load a policy; if it has mistakes, print all of them on stderr and exit with code 1."""
    from gateway.config.policy import load
    from policies.text.diagnostics import PolicyErrors

    try:
        return load(file, with_secrets=with_secrets)
    except PolicyErrors as errors:
        for problem in errors.problems:
            click.echo(problem, err=True)
        count = len(errors.problems)
        fail(counted(count, "mistake"))
