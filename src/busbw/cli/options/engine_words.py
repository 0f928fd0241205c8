"""The argument with the engine's part of a command line, `COLLECTIVE [ENGINE OPTIONS]...`, and its shell completion."""

from collections.abc import Iterable, Sequence

import click
from click.shell_completion import CompletionItem

from busbw import engine_help
from busbw.cli.options.completion import FILE, Completion, complete_collective, matching_items
from busbw.collectives import COMM_OPS
from busbw.engine_help import EngineFlag

_NAME = "words"
"""Name of the parameter with the collective and the engine's flags."""


class EngineCommand(click.Command):
    """Command with the argument of `words_argument`. It also completes the engine's flags, after the collective."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> Completion:
        """Proposes the options of this command, and after the collective the engine's flags."""
        if not ctx.params.get(_NAME):
            return super().shell_complete(ctx, incomplete)
        own_items = super().shell_complete(ctx, incomplete) if ctx.allow_interspersed_args else []
        own_names = {item.value for item in own_items}
        flag_items = _flag_items(_allowed_flags(ctx.params[_NAME]), incomplete)
        return [*own_items, *(item for item in flag_items if item.value not in own_names)]


def _complete_word(context: click.Context, parameter: click.Parameter, incomplete: str) -> Completion:
    """Proposes the collective, then flags and their values."""
    words: Sequence[str] = context.params.get(_NAME) or ()
    if not words:
        return [
            *complete_collective(context, parameter, incomplete),
            *matching_items([COMM_OPS], incomplete),
        ]
    flags = _allowed_flags(words)
    flag = next((flag for flag in flags if words[-1] in flag.names), None)
    if flag is None or not flag.placeholder:
        return _flag_items(flags, incomplete)
    if flag.takes_file:
        return [CompletionItem(incomplete, type=FILE)]
    return matching_items(flag.values, incomplete)


def _allowed_flags(words: Sequence[str]) -> Sequence[EngineFlag]:
    """Returns the flags of the program that the first word names. All collectives have the same flags."""
    return engine_help.read_help(COMM_OPS if words[0] == COMM_OPS else "").flags


def _flag_items(flags: Iterable[EngineFlag], incomplete: str) -> Completion:
    return [
        CompletionItem(name, help=flag.help) for flag in flags for name in flag.names if name.startswith(incomplete)
    ]


words_argument = click.argument(
    _NAME,
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="COLLECTIVE [ENGINE OPTIONS]...",
    shell_complete=_complete_word,
)
"""Adds the argument to a command, as `words`."""
