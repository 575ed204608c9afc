"""What several commands need: the policy file as an argument, a policy that loads or ends the command."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
    with _uncollected():
        from gateway.config.policy import load
        from policies.text.diagnostics import PolicyErrors

        try:
            return load(file, with_secrets=with_secrets)
        except PolicyErrors as errors:
            problems = errors.problems
    for problem in problems:
        click.echo(problem, err=True)
    fail(counted(len(problems), "mistake"))


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection while almost everything that is made stays: it takes a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
