"""Objects as pyiceberg's files, so that one client and one set of settings serve the whole object store."""

from __future__ import annotations

import io
from types import TracebackType
from typing import Final

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from bridges.spark.archive.storage.paths import ObjectReader
from bridges.spark.archive.storage.s3 import ObjectPath, S3Settings


class ObjectInput(InputFile):
    """An object to read."""

    def __init__(self, path: ObjectPath) -> None:
        super().__init__(str(path))
        self._path: Final = path

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        """Whether there is one."""
        return self._path.exists()

    def open(self, seekable: bool = True) -> InputStream:
        """Raises `OSError`."""
        return ObjectReader(self._path)


class _ObjectOutput(io.BytesIO):
    """A buffer that becomes an object when it is closed without an error."""

    def __init__(self, path: ObjectPath) -> None:
        super().__init__()
        self._path: Final = path

    def __enter__(self) -> _ObjectOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            super().close()

    def close(self) -> None:
        """Write the object. Raises `OSError`."""
        if not self.closed:
            self._path.write_bytes(self.getvalue())
        super().close()


class ObjectOutput(OutputFile):
    """An object that is written."""

    def __init__(self, path: ObjectPath) -> None:
        super().__init__(str(path))
        self._path: Final = path

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        """Whether there is one."""
        return self._path.exists()

    def to_input_file(self) -> InputFile:
        """The same object, for reading."""
        return ObjectInput(self._path)

    def create(self, overwrite: bool = False) -> OutputStream:
        """Open it for writing. `overwrite` has no effect: each writer's metadata has unique names."""
        return _ObjectOutput(self._path)


class ObjectFileIO(FileIO):
    """Reads and writes the metadata of a table; `properties` are those of `catalog_properties`."""

    def new_input(self, location: str) -> InputFile:
        """An object that is read."""
        return ObjectInput(self._at(location))

    def new_output(self, location: str) -> OutputFile:
        """An object that is written."""
        return ObjectOutput(self._at(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete an object."""
        self._at(location if isinstance(location, str) else location.location).unlink()

    def _at(self, location: str) -> ObjectPath:
        given = {name: self.properties.get(f"{_PREFIX}{name}") for name in S3Settings.__dataclass_fields__}
        return ObjectPath.from_url(location, S3Settings(**given))


_PREFIX: Final = "scopegate."


def catalog_properties(path: ObjectPath) -> dict[str, str]:
    """The properties of a catalog with tables in this object store."""
    found = {f"{_PREFIX}{name}": value for name, value in vars(path.settings).items() if value is not None}
    return {"py-io-impl": f"{__name__}.{ObjectFileIO.__name__}", **found}
