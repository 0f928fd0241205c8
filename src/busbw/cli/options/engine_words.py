"""The argument with the engine's part of a command line, `COLLECTIVE [ENGINE OPTIONS]...`, and its shell completion."""

from collections.abc import Iterable, Sequence

import click
from click.shell_completion import CompletionItem

from busbw.cli.options import engine_help
from busbw.cli.options.completion import FILE, Completion, complete_collective, matching_items
from busbw.cli.options.engine_help import EngineFlag
from busbw.collectives import COMM_OPS

_NAME = "words"
"""Name of the parameter with the collective or trace, and the engine's flags."""
REPLAY = "replay"
"""First argument of the engine, and first word of `ab` and `tune`, before a trace."""


class EngineCommand(click.Command):
    """Command with an argument `words`: a collective or a trace, then engine flags, which it also completes.

    click calls `shell_complete` of a command for a word with a dash, and that of the argument for any other word.
    """

    def shell_complete(self, ctx: click.Context, incomplete: str) -> Completion:
        """Proposes the options of this command, and after the first of `words` the engine's flags."""
        words = ctx.params.get(_NAME)
        if not words:
            return super().shell_complete(ctx, incomplete)
        can_have_options_after_words = ctx.allow_interspersed_args
        own_items = super().shell_complete(ctx, incomplete) if can_have_options_after_words else []
        own_names = {item.value for item in own_items}
        flag_items = _flag_items(_allowed_flags(self, words), incomplete)
        return [*own_items, *(item for item in flag_items if item.value not in own_names)]

    def engine_program(self, first_word: str) -> str:
        """Returns the program of the engine for `engine_help.read_help`: empty for a collective.

        All collectives have the same flags. `comm_ops` and `replay` have others.
        """
        return first_word if first_word in (COMM_OPS, REPLAY) else ""


class ReplayCommand(EngineCommand):
    """Command with an argument `words` that begins with a trace. Its engine flags are the flags of `replay`."""

    def engine_program(self, first_word: str) -> str:
        """Returns `replay` for any trace."""
        return REPLAY


def _complete_word(context: click.Context, parameter: click.Parameter, incomplete: str) -> Completion:
    """Proposes the collective, then flags and their values."""
    words: Sequence[str] = context.params.get(_NAME) or ()
    if not words:
        return [*complete_collective(context, parameter, incomplete), *matching_items([COMM_OPS], incomplete)]
    flags = _allowed_flags(context.command, words)
    previous_flag = next((flag for flag in flags if words[-1] in flag.names), None)
    if previous_flag is None or not previous_flag.placeholder:  # the previous word needs no value
        return _flag_items(flags, incomplete)
    if previous_flag.takes_file:
        return [CompletionItem(incomplete, type=FILE)]
    return matching_items(previous_flag.values, incomplete)


def _allowed_flags(command: click.Command, words: Sequence[str]) -> Sequence[EngineFlag]:
    """Returns the engine flags that can follow `words`, which has at least one word."""
    program = command.engine_program(words[0]) if isinstance(command, EngineCommand) else ""
    return engine_help.read_help(program).flags


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
