"""The expressions of the views in the SQL of Spark and of duckdb (pure).

Names and texts come from clients: they are always quoted, and control characters are escaped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, Protocol

from bridges.spark.views.json_type import JsonType

Field = tuple[str, str]
"""A name, with the expression of its value or its type."""


class Dialect(Protocol):
    """The SQL of one engine; expressions are over the columns of an archive's files."""

    def name(self, text: str) -> str:
        """A quoted identifier."""

    def text(self, text: str) -> str:
        """A string literal."""

    def source(self, folder: str, *, mixed: bool) -> str:
        """All Parquet files of one address; `mixed`: some have columns that others lack."""

    def entry(self, column: str, name: str) -> str:
        """The value of a map's entry, null if it is missing."""

    def cast(self, expression: str, kind: str) -> str:
        """A value cast to one of the types below, null if that is impossible."""

    def struct(self, fields: Sequence[Field]) -> str:
        """A struct with these fields."""

    def decoded(self, expression: str) -> str:
        """Bytes as text; bytes that are not UTF-8 do not fail the query."""

    def milliseconds(self, expression: str) -> str:
        """Milliseconds since 1970 as a timestamp."""

    def schema_id(self, expression: str) -> str:
        """The schema id at the beginning of a body, null without one."""

    def payload(self, expression: str) -> str:
        """The bytes after the schema id."""

    def parsed(self, text: str, kind: JsonType) -> tuple[str, str]:
        """JSON as a struct, and whether a non-null text is a mistake: invalid JSON, or values of other types."""


class SparkSql:
    """Spark SQL."""

    _TYPES: Final = {
        "null": "STRING", "boolean": "BOOLEAN", "bigint": "BIGINT", "double": "DOUBLE", "text": "STRING",
        "decimal": "DECIMAL(38,18)", "ulong": "DECIMAL(20,0)", "date": "DATE",
    }  # fmt: skip
    _MISTAKE: Final = "_scopegate_mistake"

    def name(self, text: str) -> str:
        return f"`{text.replace('`', '``')}`"

    def text(self, text: str) -> str:
        return "'" + "".join(_spark_char(char) for char in text) + "'"

    def source(self, folder: str, *, mixed: bool) -> str:
        files = f"parquet.{self.name(folder)}"
        return f"{files} WITH ('mergeSchema' = 'true')" if mixed else files

    def entry(self, column: str, name: str) -> str:
        return f"try_element_at({column}, {self.text(name)})"

    def cast(self, expression: str, kind: str) -> str:
        return f"TRY_CAST({expression} AS {self._TYPES[kind]})"

    def struct(self, fields: Sequence[Field]) -> str:
        return f"named_struct({', '.join(f'{self.text(name)}, {value}' for name, value in fields)})"

    def decoded(self, expression: str) -> str:
        return f"CAST({expression} AS STRING)"

    def milliseconds(self, expression: str) -> str:
        return f"timestamp_millis({expression})"

    def schema_id(self, expression: str) -> str:
        number = f"CAST(conv(hex(substring({expression}, 2, 4)), 16, 10) AS BIGINT)"
        return f"CASE WHEN length({expression}) >= 5 AND hex(substring({expression}, 1, 1)) = '00' THEN {number} END"

    def payload(self, expression: str) -> str:
        return f"substring({expression}, 6)"

    def parsed(self, text: str, kind: JsonType) -> tuple[str, str]:
        fields = f"{self._fields(kind)}, {self.name(self._MISTAKE)} STRING"
        options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', {self.text(self._MISTAKE)})"
        whole = f"from_json({text}, {self.text(fields)}, {options})"
        shown = self.struct([(name, f"{whole}.{self.name(name)}") for name in kind.fields])
        present = f"CASE WHEN {text} IS NOT NULL THEN {shown} END"
        return present, f"({text} IS NOT NULL AND {whole}.{self.name(self._MISTAKE)} IS NOT NULL)"

    def _fields(self, kind: JsonType, between: str = " ") -> str:
        return ", ".join(f"{self.name(name)}{between}{self._type(each)}" for name, each in kind.fields.items())

    def _type(self, kind: JsonType) -> str:
        if kind.kind == "struct":
            return f"STRUCT<{self._fields(kind, ': ')}>"
        if kind.kind == "array":
            return f"ARRAY<{self._type(kind.element or JsonType('null'))}>"
        return self._TYPES[kind.kind]


class DuckdbSql:
    """duckdb's SQL."""

    _TYPES: Final = {
        "null": "VARCHAR", "boolean": "BOOLEAN", "bigint": "BIGINT", "double": "DOUBLE", "text": "VARCHAR",
        "decimal": "DECIMAL(38,18)", "ulong": "UBIGINT", "date": "DATE",
    }  # fmt: skip

    def name(self, text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    def text(self, text: str) -> str:
        if text.isprintable():
            return "'" + text.replace("'", "''") + "'"
        parts = (self.text(char) if char.isprintable() else f"chr({ord(char)})" for char in text)
        return f"({' || '.join(parts)})"

    def source(self, folder: str, *, mixed: bool) -> str:
        options = "hive_partitioning = true, union_by_name = true, hive_types = {'date': VARCHAR}"
        return f"read_parquet({self.text(folder + '/*/*.parquet')}, {options})"

    def entry(self, column: str, name: str) -> str:
        return f"map_extract({column}, {self.text(name)})[1]"

    def cast(self, expression: str, kind: str) -> str:
        return f"TRY_CAST({expression} AS {self._TYPES[kind]})"

    def struct(self, fields: Sequence[Field]) -> str:
        return f"struct_pack({', '.join(f'{self.name(name)} := {value}' for name, value in fields)})"

    def decoded(self, expression: str) -> str:
        return f"TRY(decode({expression}))"

    def milliseconds(self, expression: str) -> str:
        return f"make_timestamptz({expression} * 1000)"

    def schema_id(self, expression: str) -> str:
        number = f"TRY_CAST('0x' || substr(hex({expression}), 3, 8) AS BIGINT)"
        return f"CASE WHEN octet_length({expression}) >= 5 AND substr(hex({expression}), 1, 2) = '00' THEN {number} END"

    def payload(self, expression: str) -> str:
        return f"TRY(unhex(substr(hex({expression}), 11)))"

    def parsed(self, text: str, kind: JsonType) -> tuple[str, str]:
        document = f"TRY_CAST({text} AS JSON)"
        shape = self.text(self._shape(kind))
        whole = f"CASE WHEN json_type({document}) = 'OBJECT' THEN json_transform({document}, {shape}) END"
        differs = " OR ".join(
            f"(json_type({document}, {self.text(_pointer(name))}) <> 'NULL' AND ({whole}).{self.name(name)} IS NULL)"
            for name in kind.fields
        )
        wrong = f"coalesce(json_type({document}) <> 'OBJECT', true) OR coalesce({differs}, false)"
        return whole, f"({text} IS NOT NULL AND ({wrong}))"

    def _shape(self, kind: JsonType) -> str:
        if kind.kind == "struct":
            return "{" + ", ".join(f"{_json(name)}: {self._shape(each)}" for name, each in kind.fields.items()) + "}"
        if kind.kind == "array":
            return f"[{self._shape(kind.element or JsonType('null'))}]"
        return _json(self._TYPES[kind.kind])


def _spark_char(char: str) -> str:
    if char in "'\\":
        return f"\\{char}"
    return char if char.isprintable() else "".join(f"\\u{unit:04x}" for unit in _utf16(char))


def _utf16(char: str) -> list[int]:
    data = char.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2)]


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")
