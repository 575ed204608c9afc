"""`scopegate check`: find every mistake of a policy file and of the files that it names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.common import FILE, fail, load_policy
from gateway.plural import counted

if TYPE_CHECKING:
    from policies.rules import CompiledPolicy


@click.command(epilog="Exit codes: 0 no mistake; 1 mistakes, all of them on stderr.")
@FILE
@click.option("--no-secrets", is_flag=True, help="Do not check secrets, user files and certificates.")
def check(file: Path, no_secrets: bool) -> None:
    """Find every mistake of a policy file at once.

    Each is printed as file:line:column: key: what is wrong (and what is allowed). Warnings do not change the exit code.
    """
    policy = load_policy(file, with_secrets=not no_secrets)
    for warning in policy.warnings:
        _warn(warning)
    if policy.model.kafka:
        _check_kafka_client()
    if not no_secrets:
        _check_files(policy)
    click.echo(f"ok: {_summary(policy)}")


def _warn(warning: object) -> None:
    click.echo(f"warning: {warning}", err=True)


def _check_kafka_client() -> None:
    from gateway.server.composition import kafka_client_slowness

    if (reason := kafka_client_slowness()) is not None:
        _warn(reason)


def _check_files(policy: CompiledPolicy) -> None:
    """Read users files, certificates and Kafka settings as `run` does; mistakes go to stderr, with exit code 1."""
    from gateway.config.credential_files import CredentialFilesError, load_credential_files
    from gateway.server.composition import check_cluster

    try:
        credentials = load_credential_files(policy, check_cluster)
    except CredentialFilesError as errors:
        fail(str(errors))
    for warning in credentials.warnings:
        _warn(warning)


def _summary(policy: CompiledPolicy) -> str:
    """How many scopes, listeners, rules and clusters the policy has."""
    scopes = policy.model.scopes.values()
    counts = {
        "scope": len(scopes),
        "listener": sum(len(scope.listen) for scope in scopes),
        "connector": sum(len(scope.connect) for scope in scopes),
        "address rule": sum(len(scope.addresses) for scope in scopes),
        "access rule": sum(len(scope.access) for scope in scopes),
        "Kafka cluster": len(policy.model.kafka),
    }
    return ", ".join(counted(count, name) for name, count in counts.items())
