"""The command line, `scopegate`: the group that has every command, each in the module of its name.

A command imports what it needs, except click, when it is called.

Exit codes: 0 done, 1 refused or invalid input (reported on stderr), 2 incorrect use of the command line.
"""

from __future__ import annotations

import errno
from importlib import import_module
from typing import Final

import click

from gateway import __version__
from gateway.cli.check import check
from gateway.cli.common import fail
from gateway.cli.cookie import cookie
from gateway.cli.explain import explain
from gateway.cli.filter import filter_command
from gateway.cli.health import health
from gateway.cli.keys import keys
from gateway.cli.quickstart import quickstart
from gateway.cli.run import run
from gateway.cli.schema import schema
from gateway.cli.users import users
from gateway.cli.version import version

_EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 refused, or a mistake in the given files (reported on stderr); 2 incorrect use of the "
    "command line."
)


_LATER: Final = {
    **dict.fromkeys(("receive", "request", "send"), "messages"),
    **dict.fromkeys(
        ("close", "connections", "console", "drain", "groups", "links", "reload", "status", "top"), "admin"
    ),
}
"""Commands that are imported when they are called, by their package: they need more than click."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class _Commands(click.Group):
    """The gateway's commands, and those of the bridges, which are found through the composition root."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except OSError as error:  # of the output, which is no file that a command has opened
            if error.filename is None and error.errno in _FULL:
                fail(f"the output cannot be written: {error.strerror}")
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        from gateway.server.composition import bridge_commands

        return sorted({*super().list_commands(ctx), *_LATER, *bridge_commands()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from gateway.server.composition import bridge_commands

        command = super().get_command(ctx, cmd_name)
        if (package := _LATER.get(cmd_name)) is not None:
            command = getattr(import_module(f"{__package__}.{package}.{cmd_name}"), cmd_name)
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


for _command in (
    check, cookie, explain, filter_command, health, keys, quickstart, run, schema, users, version,
):  # fmt: skip
    main.add_command(_command)


if __name__ == "__main__":
    main()
