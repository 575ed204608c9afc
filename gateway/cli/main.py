"""The command line, `scopegate`: the group that has every command, each in the module of its name.

A command is imported when it is called, and imports what it needs, except click, when it works.

Exit codes: 0 done, 1 refused or invalid input (reported on stderr), 2 incorrect use of the command line.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
from importlib import import_module
from typing import Final, cast

import click

from gateway import __version__
from gateway.cli.common import fail

_EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 refused, or a mistake in the given files (reported on stderr); 2 incorrect use of the "
    "command line."
)

_MODULES: Final = {
    **{name: f"{name}.{name}" for name in (
        "check", "cookie", "explain", "health", "keys", "quickstart", "run", "schema", "users", "version",
    )},
    "filter": "filter.filter_command",
    **{name: f"messages.{name}.{name}" for name in ("receive", "request", "send")},
    **{name: f"admin.{name}.{name}" for name in (
        "close", "connections", "console", "drain", "groups", "links", "reload", "status", "top",
    )},
}  # fmt: skip
"""Where each command is; it is imported when it is called."""

# pydantic would read the entry points of all installed packages for plugins: 20 ms of a start, for code of others that
# could change how a policy is read.
os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"

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

        return sorted({*_MODULES, *bridge_commands()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (place := _MODULES.get(cmd_name)) is not None:
            module, _, name = place.rpartition(".")
            return cast("click.Command", getattr(import_module(f"{__package__}.{module}"), name))
        from gateway.server.composition import bridge_commands

        make = bridge_commands().get(cmd_name)
        return None if make is None else make()


@click.group(cls=_Commands, epilog=_EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="scopegate %(version)s", help="Print the version.")
def main() -> None:
    """ScopeGate connects AMQP 1.0 networks with each other and with Apache Kafka.

    One policy file defines where it listens, what each address is and who may use it. For a demonstration:
    scopegate quickstart. To write your own policy, start from policies/examples and docs/policy.md.
    """


# Nothing that a command has imported has to be collected at its end, which takes a seventh of a short one.
atexit.register(gc.freeze)


if __name__ == "__main__":
    main()
