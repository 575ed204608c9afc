"""Loads a policy file: all mistakes at once, each with its place, or a compiled policy.

Nothing is read but through the arguments: `gateway/config/policy.py` hands in the environment and the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from policies.checks.bridge import CheckFilter, bridges
from policies.checks.policy import findings
from policies.checks.pull import pulls
from policies.compile import compile_scopes, relay_loops
from policies.load.diagnostics import Diagnostic, PolicyErrors
from policies.load.findings import Finding
from policies.load.messages import model_problems
from policies.load.parts import policy_parts
from policies.load.secrets import ReadBytes, Vault, missing, signing_key
from policies.load.tree import Tree, parse
from policies.model.base import Secret
from policies.model.policy import Policy
from policies.rules import CompiledPolicy, SigningKey, SigningKeys
from policies.subscriptions import compile_sinks


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
    tree = parse(_read(path, read_bytes), str(path))
    vault = Vault(path.parent, environ, read_bytes) if with_secrets else None
    policy, problems, warnings = _examine(tree, vault)
    if policy is None or problems:
        raise PolicyErrors(problems)
    scopes = compile_scopes(policy, tree)
    found_later = (*relay_loops(policy, scopes), *pulls(policy, scopes), *bridges(policy, scopes, check_filter))
    if problems := _placed(found_later, tree):
        raise PolicyErrors(problems)
    found, files = (vault.values, vault.digests) if vault is not None else ({}, {})
    signing, sinks = _signing(policy, found), compile_sinks(policy, tree)
    return CompiledPolicy(path, policy, scopes, signing, tuple(warnings), found, sinks, files)


def _read(path: Path, read_bytes: ReadBytes) -> bytes:
    try:
        return read_bytes(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PolicyErrors([Diagnostic(str(path), 0, 0, "", f"cannot be read: {reason}")]) from None


def _examine(tree: Tree, vault: Vault | None) -> tuple[Policy | None, list[Diagnostic], list[Diagnostic]]:
    problems, policy = list(tree.problems), None
    try:
        policy = Policy.model_validate({} if tree.data is None else tree.data)
    except ValidationError as error:
        problems += model_problems(error, tree)
    parts = policy_parts(tree.data)
    found = [*findings(parts), *(missing(parts, vault) if vault is not None else ())]
    problems += _placed((finding for finding in found if not finding.warning), tree)
    warnings = _placed((finding for finding in found if finding.warning), tree)
    return policy, problems, sorted(warnings)


def _placed(found: Iterable[Finding], tree: Tree) -> list[Diagnostic]:
    return [tree.problem(finding.loc, finding.message, key=finding.at_key) for finding in found]


def _signing(policy: Policy, found: Mapping[Secret, bytes]) -> SigningKeys | None:
    if policy.keys is None or not found:
        return None
    ring = {
        name: SigningKey(signing_key(found[entry.reference]), entry.until) for name, entry in policy.keys.ring.items()
    }
    keys = policy.keys
    return SigningKeys(keys.active, ring, keys.expiry, keys.skew, keys.seal, keys.max_cookie)
