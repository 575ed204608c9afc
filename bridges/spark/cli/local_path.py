"""Parameter types of the command line for paths."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from policies.values.folders import archive_problem, is_object_store, url_problem

if TYPE_CHECKING:
    from bridges.spark.archive.storage.paths import StoragePath


ArchiveText: TypeAlias = Path | str
"""An argument ARCHIVE before its command runs: a folder, or the URL of a prefix in a bucket."""


class LocalPath(click.Path):
    """As `click.Path`, but a path that begins with a scheme (`file:`, `s3a:`, ...) is a usage error."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """The path, of the type `path_type`. Fails for a URL, with the remedy."""
        if not str(value):  # such as a variable of the shell that is not set; the working directory would be meant
            self.fail("the path is empty", param, ctx)
        if (problem := url_problem(str(value))) is not None:
            self.fail(problem, param, ctx)
        return super().convert(value, param, ctx)


class ArchivePath(LocalPath):
    """The path of an archive: of a folder, or `s3://bucket/prefix`, which stays text until the command runs."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """A `Path`, or the text of the URL. Fails for other URLs."""
        if (problem := archive_problem(str(value))) is not None:
            self.fail(problem, param, ctx)
        return str(value) if is_object_store(str(value)) else super().convert(value, param, ctx)


def located(archive: ArchiveText) -> StoragePath:
    """The location of an archive, from the argument, options and environment."""
    if isinstance(archive, Path):
        return archive
    from bridges.spark.archive.storage.paths import storage_path

    return storage_path(archive)


def archive_paths(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The callback of an option whose values are paths of files or archives as text; raises `click.BadParameter`."""
    for value in values:
        if (problem := archive_problem(value)) is not None:
            raise click.BadParameter(problem, ctx, param)
    return values
