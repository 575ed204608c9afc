"""The type of options and arguments of the command line that are paths and must not be URLs."""

from __future__ import annotations

import os

import click

from policies.values.folders import url_problem


class LocalPath(click.Path):
    """As `click.Path`; a path that begins with a scheme (`file:`, `s3a:`, ...) is wrong use of the command."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """The path, of the type that `path_type` names. Fails with the way out for a URL."""
        if (problem := url_problem(str(value))) is not None:
            self.fail(problem, param, ctx)
        return super().convert(value, param, ctx)


def local_paths(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The callback of an option whose values are paths as text; raises `click.BadParameter` for a URL."""
    for value in values:
        if (problem := url_problem(value)) is not None:
            raise click.BadParameter(problem, ctx, param)
    return values
