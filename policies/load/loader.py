"""Loads a policy file: all mistakes at once, each with its place, or a compiled policy.

It reads nothing by itself: `gateway/config/policy.py` passes functions that read the environment and the disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from policies.checks.bridge import CheckFilter, check_bridges
from policies.checks.policy import check_parts
from policies.checks.pull import check_pulls
from policies.checks.relay_loops import check_relay_loops
from policies.checks.subscriptions import check_managers
from policies.compile import compile_scopes
from policies.load.secrets import ReadBytes, SecretReader, check_secrets, signing_key
from policies.model.policy import Policy
from policies.parts.messages import model_problems
from policies.parts.parts import policy_parts
from policies.rules import CompiledPolicy, SigningKey, SigningKeys
from policies.subscriptions import compile_sinks
from policies.text.diagnostics import Diagnostic, PolicyErrors
from policies.text.tree import Tree, parse
from policies.values.base import Secret

_DIGITS: Final = 12
_EMPTY: Final = "the file is empty; start from policies/examples, or see docs/policy.md"


def load_policy(
    path: Path,
    *,
    environ: Mapping[str, str],
    read_bytes: ReadBytes,
    with_secrets: bool = True,
    check_filter: CheckFilter = lambda _: None,
) -> CompiledPolicy:
    """Read, check and compile the policy at `path`, or raise `PolicyErrors` with every mistake.

    `with_secrets=False` reads only the file itself: for checks on a machine without secrets. Such a policy has no
    `signing` keys and must not be served. `check_filter` returns the mistake in a bridge's filter, or None.
    """
    content = _read(path, read_bytes)
    tree = parse(content, str(path))
    reader = SecretReader(path.parent, environ, read_bytes) if with_secrets else None
    policy, problems, warnings = _examine(tree, reader)
    if policy is None or problems:
        raise PolicyErrors(problems)
    scopes = compile_scopes(policy, tree)
    found = (
        *check_relay_loops(policy, scopes), *check_pulls(policy, scopes),
        *check_bridges(policy, scopes, check_filter), *check_managers(policy, scopes),
    )  # fmt: skip
    if found:
        raise PolicyErrors(_located(found, tree))
    secrets, files = (reader.values, reader.digests) if reader is not None else ({}, {})
    signing, sinks = _signing(policy, secrets), compile_sinks(policy, tree)
    digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
    text = content.decode("utf-8", "replace")
    return CompiledPolicy(path, policy, scopes, signing, tuple(warnings), secrets, sinks, files, digest, text)


def _read(path: Path, read_bytes: ReadBytes) -> bytes:
    try:
        return read_bytes(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PolicyErrors([Diagnostic((), f"cannot be read: {reason}", file=str(path))]) from None


def _examine(tree: Tree, reader: SecretReader | None) -> tuple[Policy | None, list[Diagnostic], list[Diagnostic]]:
    problems, policy = list(tree.problems), None
    if tree.data is None and not problems:
        return None, [tree.locate(Diagnostic((), _EMPTY))], []
    try:
        policy = Policy.model_validate({} if tree.data is None else tree.data)
    except ValidationError as error:
        problems += model_problems(error, tree)
    parts = policy_parts(tree.data)
    found = [*check_parts(parts), *(check_secrets(parts, reader) if reader is not None else ())]
    problems += _located((each for each in found if not each.warning), tree)
    warnings = _located((each for each in found if each.warning), tree)
    return policy, problems, sorted(warnings, key=lambda warning: warning.order)


def _located(found: Iterable[Diagnostic], tree: Tree) -> list[Diagnostic]:
    return [tree.locate(each) for each in found]


def _signing(policy: Policy, secrets: Mapping[Secret, bytes]) -> SigningKeys | None:
    if policy.keys is None or not secrets:
        return None
    ring = {
        name: SigningKey(signing_key(secrets[entry.reference]), entry.until) for name, entry in policy.keys.ring.items()
    }
    keys = policy.keys
    return SigningKeys(keys.active, ring, keys.expiry, keys.skew, keys.seal, keys.max_cookie)
