"""`busbw find LAUNCHER`: a search within a job, with the options of `busbw launch LAUNCHER`.

Launchers only follow the output of process 0. So process 0 starts the search (`engine/flows/search_process.hpp`).
"""

import shlex
from itertools import chain

import click

from busbw.cli.find.exports import EXPORTS
from busbw.cli.find.summary import SearchSummary
from busbw.cli.lazy import LazyGroup
from busbw.cli.options.engine_flags import reject_near_miss_options
from busbw.cli.options.launcher_options import Words, launched_command
from busbw.engine import FLOWS
from busbw.errors import UsageError

_SEARCH_OPTIONS = {"topology", "size_bytes", "pairs", "max_rounds", "seed", "system_name", "as_json"}
"""Options of `busbw find` that process 0 gets. The others are files for the result, or select a source of flows."""
_SOURCE_OPTIONS = {"shape", "layout", "nodes_per_leaf", "oversubscription", "program", "logs"}
"""Options of `busbw find` for other sources of flows than a job. --fault is absent: it is also a flag of the engine."""
_FIXED_VALUES = {"plot_when": "never", "steps": 1}
"""Values of launcher options that the user of `busbw find` cannot set: a search has no table and runs once."""


class SearchGroup(LazyGroup):
    """`busbw find`: it has the commands of `busbw launch`, which here start a search instead of a collective."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Returns the search with this launcher. None if there is no such launcher."""
        launch_command = super().get_command(context, name)
        if launch_command is None:
            return None
        command = launched_command(
            launch_command,
            self.params,
            passed_on=_SEARCH_OPTIONS,
            exports=EXPORTS,
            result_type=SearchSummary,
            fixed_values=_FIXED_VALUES,
            make_engine_words=_engine_words,
        )
        sources = {option.opts[0] for option in self.params if option.name in _SOURCE_OPTIONS}

        def check_words(_context: click.Context, _words: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
            for word in words:
                if word.partition("=")[0] in sources:
                    raise UsageError(f"{word} is no option of find {name}", remedy="remove it, or the launcher")
            reject_near_miss_options(words, command)
            return words

        command.params.append(
            click.Argument(
                ["words"], nargs=-1, type=click.UNPROCESSED, metavar="[ENGINE OPTIONS]...", callback=check_words
            )
        )
        command.context_settings = {"ignore_unknown_options": True}
        command.help = f"Locates the slow part among the nodes of a job of `busbw launch {name}`."
        command.epilog = (
            "All other options are engine flags, such as --backend; `busbw-engine flows --help` lists them."
        )
        return command


def _engine_words(words: Words) -> tuple[str, ...]:
    """Returns the first arguments of the engine. `words` has the words of each option that the user set."""
    search = ["busbw", "find", *chain.from_iterable(words.values())]
    return FLOWS, "--search", shlex.join(search)
