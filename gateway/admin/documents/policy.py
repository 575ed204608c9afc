"""The policy in force as JSON: its scopes and rules, its keys without their secrets, and what it has refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from gateway.admin.documents.common import Document, moment, shown
from policies.explain.reserved import reserved_address

if TYPE_CHECKING:
    from gateway.config.certificates import CertificateFile, CertificateTimes
    from gateway.config.policy_state import ReloadOutcome
    from gateway.observability.refusals import RecentRefusal
    from policies.model.scopes.access import Action
    from policies.rules import CompiledPolicy

_KINDS = ("direct", "relay", "kafka", "service", "redirect")
_MAX_PROBLEMS = 100


def policy_document(policy: CompiledPolicy, since: Mapping[str, float], last: ReloadOutcome | None) -> Document:
    """The policy, since when it and those before it are in force, and how the last reload ended."""
    *before, _ = [*since] or [""]
    return {
        "file": str(policy.file),
        "digest": policy.digest,
        "since": moment(since.get(policy.digest)),
        "before": [{"digest": each, "since": moment(since[each])} for each in reversed(before)],
        "warnings": [str(each) for each in policy.warnings],
        "last_reload": None if last is None else outcome_document(last),
        "scopes": {
            name: {
                "listeners": [str(each.bind) for each in scope.listen],
                "connectors": [each.name for each in scope.connect],
                "addresses": len(scope.addresses),
                "access": len(scope.access),
            }
            for name, scope in policy.model.scopes.items()
        },
    }


def outcome_document(last: ReloadOutcome) -> Document:
    """How a reload ended."""
    problems = [*last.problems][:_MAX_PROBLEMS]
    return {"at": moment(last.at), "result": last.result, "problems": problems, **last.counts}


def keys_documents(policy: CompiledPolicy, written: Mapping[str, datetime], now: datetime) -> list[Document]:
    """The signing keys by name; nothing of their secrets. `written`: when the files of keys were."""
    signing = policy.signing
    if signing is None:
        return []
    return [
        {
            "id": name,
            "active": name == signing.active,
            "age_days": (now - written[name]).days if name in written else None,
            "until": None if key.until_ms is None else moment(key.until_ms / 1000),
        }
        for name, key in signing.keys.items()
    ]


def address_rules(policy: CompiledPolicy) -> list[tuple[str, int]]:
    """The scopes and positions of the address rules, in the order in which they are tried."""
    return [(name, at) for name, scope in policy.model.scopes.items() for at in range(len(scope.addresses))]


def address_document(policy: CompiledPolicy, scope: str, at: int) -> Document:
    """An address rule."""
    rule = policy.model.scopes[scope].addresses[at]
    kind = next((kind for kind in _KINDS if getattr(rule, kind, None)), "none")
    to = str(getattr(rule, kind, ""))
    return {"id": f"{scope}/{at}", "scope": scope, "match": rule.match.text, "kind": kind, "to": to}


def certificate_documents(
    found: Sequence[tuple[CertificateFile, list[CertificateTimes] | str]], now: datetime
) -> Iterator[Document]:
    """The certificates with the whole days that they are still valid; of a file that cannot be read, the reason."""
    for file, times in found:
        about: Document = {"where": file.where, "use": file.use, "file": str(file.path)}
        if isinstance(times, str):
            yield {**about, "error": times}
            continue
        for each in times:
            days = (each.until - now).days
            about |= {"subject": each.subject, "since": each.since.isoformat(), "until": each.until.isoformat()}
            yield {**about, "days": days, "valid": each.since <= now < each.until}


def refusal_document(number: int, refusal: RecentRefusal, policy: CompiledPolicy) -> Document:
    """A refusal, and the line of the policy in force that decides about the address now."""
    return {
        "id": str(number),
        "at": moment(refusal.at),
        "kind": refusal.kind,
        "scope": refusal.scope,
        "user": shown(refusal.user),
        "connection": refusal.connection,
        "action": refusal.action,
        "address": shown(refusal.address),
        "condition": shown(refusal.condition),
        "description": shown(refusal.description),
        "policy": _line(refusal, policy),
    }


def _line(refusal: RecentRefusal, policy: CompiledPolicy) -> str | None:
    rules = policy.scopes.get(refusal.scope)
    if rules is None or refusal.address is None:
        return None
    action: Action = "send" if refusal.action == "send" else "receive"
    if (reserved := reserved_address(rules, action, refusal.address)) is not None:
        return f"{reserved.what}; no address rule decides"
    rule = rules.rule(refusal.address.removesuffix("/$info"))
    if rule is None:
        return "no address rule matches"
    if refusal.kind == "link" and refusal.action in ("send", "receive"):
        decided = rules.decide(refusal.user, refusal.action, refusal.address)  # type: ignore[arg-type]
        if decided.route is not None and not decided.grant.allowed:
            return f"{rule.where}; no access entry allows {refusal.action}"
    return str(rule.where)
