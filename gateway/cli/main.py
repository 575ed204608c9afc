"""The command line, `scopegate`. Everything but click is imported by the command that needs it.

Exit codes: 0 done, 1 refused or invalid input (reported on stderr), 2 incorrect use of the command line.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gateway import __version__
from gateway.cli.cookie import cookie
from gateway.cli.filter import filter_command
from gateway.cli.groups import groups
from gateway.cli.secrets import keys, users

if TYPE_CHECKING:
    from policies.rules import CompiledPolicy

_EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 refused, or a mistake in the given files (reported on stderr); 2 incorrect use of the "
    "command line."
)
_FILE: Final = click.argument("file", type=click.Path(path_type=Path))


class _Commands(click.Group):
    """The gateway's commands, and those of the bridges, which are found through the composition root."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from gateway.server.composition import bridge_commands

        return sorted({*super().list_commands(ctx), *bridge_commands()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from gateway.server.composition import bridge_commands

        command = super().get_command(ctx, cmd_name)
        if command is None and (make := bridge_commands().get(cmd_name)) is not None:
            command = make()
        return command


@click.group(cls=_Commands, epilog=_EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="scopegate %(version)s", help="Print the version.")
def main() -> None:
    """ScopeGate connects AMQP 1.0 networks with each other and with Apache Kafka.

    One policy file defines where it listens, what each address is and who may use it. For a demonstration:
    scopegate quickstart. To write your own policy, start from policies/examples and docs/policy.md.
    """


def _load(file: Path, *, with_secrets: bool = True) -> CompiledPolicy:
    """The policy, or every mistake on stderr and exit code 1."""
    from gateway.config.policy import load
    from policies.load.diagnostics import PolicyErrors

    try:
        return load(file, with_secrets=with_secrets)
    except PolicyErrors as errors:
        for problem in errors.problems:
            click.echo(problem, err=True)
        count = len(errors.problems)
        click.echo(f"{count} mistake{'s' if count > 1 else ''}", err=True)
        sys.exit(1)


def _check_files(policy: CompiledPolicy) -> None:
    """Users files, certificates and Kafka settings, as `run` would take them; mistakes on stderr and exit code 1."""
    from gateway.config.credential_files import CredentialFilesError, load_materials
    from gateway.server.composition import check_cluster

    try:
        materials = load_materials(policy, check_cluster)
    except CredentialFilesError as errors:
        click.echo(errors, err=True)
        sys.exit(1)
    for warning in materials.warnings:
        click.echo(f"warning: {warning}", err=True)


@main.command(epilog="Exit codes: 0 no mistake; 1 mistakes, all of them on stderr.")
@_FILE
@click.option("--no-secrets", is_flag=True, help="Do not check secrets, user files and certificates.")
def check(file: Path, no_secrets: bool) -> None:
    """Find every mistake of a policy file at once.

    Each is printed as file:line:column: key: what is wrong (and what is allowed). Warnings do not change the exit code.
    """
    policy = _load(file, with_secrets=not no_secrets)
    for warning in policy.warnings:
        click.echo(f"warning: {warning}", err=True)
    if policy.model.kafka:
        from gateway.server.composition import kafka_client_slowness

        if (slow := kafka_client_slowness()) is not None:
            click.echo(f"warning: {slow}", err=True)
    if not no_secrets:
        _check_files(policy)
    scopes = policy.model.scopes.values()
    counts = {
        "scope": len(scopes),
        "listener": sum(len(scope.listen) for scope in scopes),
        "connector": sum(len(scope.connect) for scope in scopes),
        "address rule": sum(len(scope.addresses) for scope in scopes),
        "access rule": sum(len(scope.access) for scope in scopes),
        "Kafka cluster": len(policy.model.kafka),
    }
    said = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items())
    click.echo(f"ok: {said}")


@main.command(epilog="Exit codes: 0 allowed; 1 refused, or a mistake in the file.")
@_FILE
@click.option("--scope", required=True, help="The scope whose listener the client is connected to.")
@click.option("--user", default="anonymous", show_default=True, help="The user.")
@click.option("--address", required=True, help="The address of the link.")
@click.option("--send", "action", flag_value="send", help="The client sends to the address.")
@click.option("--receive", "action", flag_value="receive", help="The client receives from the address.")
@click.option("--info", "action", flag_value="info", help="The client reads the $info of the address.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(file: Path, scope: str, user: str, address: str, action: str | None, as_json: bool) -> None:
    """Show what the gateway would answer to a client, and which lines of the policy decide it.

    Needs none of the policy's secrets.
    """
    from policies.explain.explanation import explain as explained

    if action not in ("send", "receive", "info"):
        raise click.UsageError("name the action of the client: --send, --receive or --info")
    policy = _load(file, with_secrets=False)
    if scope not in policy.scopes:
        raise click.UsageError(f"there is no scope {scope} in {file} (there is: {', '.join(policy.scopes)})")
    answer = explained(policy, scope, user, address, action)  # type: ignore[arg-type]
    click.echo(json.dumps(answer.as_dict()) if as_json else str(answer))
    sys.exit(0 if answer.allowed else 1)


@main.command()
@click.option("--markdown", is_flag=True, help="Print the reference in Markdown, docs/policy.md, instead.")
def schema(markdown: bool) -> None:
    """Print the JSON Schema of the policy file, for editors and other tools."""
    from policies.reference import markdown as page
    from policies.schema import json_schema

    click.echo(page() if markdown else json.dumps(json_schema(), indent=2), nl=not markdown)


@main.command(epilog="Exit codes: 0 drained and closed; 1 not started: a mistake in the policy, or a port in use.")
@_FILE
def run(file: Path) -> None:
    """Serve a policy until SIGTERM or Ctrl-C.

    SIGHUP or a changed file reloads it. Links whose rule has not changed and still permits them stay open; links whose
    rule has changed are detached and may attach again. An invalid new policy is reported, and the old one stays in
    force.
    """
    gc.disable()  # what is imported stays, and looking through it takes time; `prepare_process` turns it on
    from gateway.server.process import run as serve

    sys.exit(serve(file))


@main.command(epilog="Exit codes: 0 all steps were verified; 1 a step failed.")
@click.option("--once", is_flag=True, help="Exit after the transcript instead of continuing to serve.")
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A copy of policies/examples/quickstart.yaml with other ports.  [default: that file]",
)
def quickstart(once: bool, policy: Path | None) -> None:
    """Start a gateway with two scopes and an embedded Kafka, and watch stock clients use it."""
    from gateway.quickstart import run as start

    sys.exit(start(once, policy))


@main.command()
def version() -> None:
    """Print the version, as --version does."""
    click.echo(f"scopegate {__version__}")


main.add_command(cookie)
main.add_command(filter_command)
main.add_command(groups)
main.add_command(keys)
main.add_command(users)


if __name__ == "__main__":
    main()
