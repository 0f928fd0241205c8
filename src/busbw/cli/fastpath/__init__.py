"""`busbw fastpath`: the library that does small collectives itself. One small file a command."""

from importlib import import_module

import click

COMMANDS = {
    "path": 'Prints the library\'s path: LD_PRELOAD="$(busbw fastpath path)" PROGRAM.',
    "show": "Prints the table in force, and which library it is of.",
    "tune": "Measures which method is best for which size, and writes the table.",
}
"""Every command and its line in the help; `busbw.cli.fastpath.<name>` has it under that name, imported when called."""


class _Commands(click.Group):
    """The commands of COMMANDS."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = vars(import_module(f"busbw.cli.fastpath.{name}"))[name]
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands)
def fastpath() -> None:
    """The library that is loaded before NCCL and does small collectives itself (docs/fastpath.md)."""
