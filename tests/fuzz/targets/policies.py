"""Policy files: any bytes are a policy, or mistakes of which each has its place and is one line."""

from __future__ import annotations

from policies.rules import CompiledPolicy
from policies.schema import json_schema
from tests.support.gateway.policy import load_any


def _keys(node: object) -> set[str]:
    if isinstance(node, dict):
        own = node.get("properties", {})
        return set(own) | {key for value in node.values() for key in _keys(value)}
    return {key for value in node for key in _keys(value)} if isinstance(node, list) else set()


SYNTAX = (b"&a ", b"*a", b"!!int ", b"? ", b": ", b"- ", b"|\n", b">\n", b"%YAML", b"---", b"<<: ", b"{env: A}", b"/**")
WORDS = (*SYNTAX, *(f"{key}: ".encode() for key in sorted(_keys(json_schema()))))


def one(data: bytes) -> None:
    """Load it; what is found wrong has a line, a column and a text of one line."""
    loaded = load_any(data)
    if isinstance(loaded, CompiledPolicy):
        assert loaded.scopes.keys() == loaded.model.scopes.keys()
