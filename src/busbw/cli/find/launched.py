"""`busbw find LAUNCHER`: a search within a job, with the options of `busbw launch LAUNCHER`.

Launchers only follow the output of process 0. So process 0 starts the search (`engine/flows/search_process.hpp`).
"""

import shlex
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from busbw.cli.find.export_options import EXPORTS
from busbw.cli.find.summary import SearchSummary
from busbw.cli.lazy import LazyGroup
from busbw.cli.options.engine_flags import reject_near_miss_options
from busbw.cli.options.export_options import write_exports
from busbw.cli.options.launcher_options import option_words, split_launcher_options
from busbw.engine import FLOWS
from busbw.errors import UsageError

_SEARCH_OPTIONS = {"topology", "size_bytes", "pairs", "max_rounds", "seed", "system_name", "as_json"}
"""Options of `busbw find` that process 0 gets. The others, except files for the result, concern a source of flows."""
_SOURCE_OPTIONS = {"shape", "layout", "nodes_per_leaf", "oversubscription", "program", "logs"}
"""Options of `busbw find` that concern another source of flows than a job. --fault is also a flag of the engine."""
_FIXED_VALUES = {"plot_when": "never", "steps": 1}
"""Launcher options that concern only a table, with the value that `busbw find` passes for each.

The user cannot set them here.
"""


class SearchGroup(LazyGroup):
    """`busbw find`: its commands are those of `busbw launch`, which start a search instead of a collective."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Returns the search with this launcher. None if there is no such launcher."""
        command = super().get_command(context, name)
        search_options = [each for each in self.params if each.name in _SEARCH_OPTIONS]
        export_options = [each for each in self.params if each.opts[0] in EXPORTS]
        sources = [each.opts[0] for each in self.params if each.name in _SOURCE_OPTIONS]
        return command and _search_command(command, search_options, export_options, sources)


def _search_command(
    launch_command: click.Command,
    search_options: Sequence[click.Parameter],
    export_options: Sequence[click.Parameter],
    sources: Sequence[str],
) -> click.Command:
    launch = launch_command.callback
    assert launch is not None
    launcher_options, fixed_values = split_launcher_options(launch_command, _FIXED_VALUES)
    parameters = [*launcher_options, *search_options, *export_options]

    def start(words: tuple[str, ...], **values: Any) -> int:
        for word in words:
            if word.partition("=")[0] in sources:
                raise UsageError(
                    f"{word} is no option of find {launch_command.name}", remedy="remove it, or the launcher"
                )
        reject_near_miss_options(words, [name for each in parameters for name in each.opts if name.startswith("--")])
        search_words = [word for each in search_options for word in option_words(each, values.pop(each.name or ""))]
        export_paths = {each.opts[0]: values.pop(each.name or "") for each in export_options}
        if any(export_paths.values()):
            search_words.append("--also-json")

        def handle_result(line: bytes) -> bool:
            """Writes the requested export files. Returns True if the JSON result is printed too."""
            write_exports(EXPORTS, msgspec.json.decode(line, type=SearchSummary), export_paths)
            return "--json" in search_words

        search = shlex.join(["busbw", "find", *search_words])
        engine_words = (FLOWS, "--search", search)
        code: int = launch(
            words=words, engine_words=engine_words, handle_result=handle_result, **fixed_values, **values
        )
        return code

    return click.Command(
        launch_command.name,
        context_settings={"ignore_unknown_options": True},
        callback=start,
        params=[
            *parameters,
            click.Argument(["words"], nargs=-1, type=click.UNPROCESSED, metavar="[ENGINE OPTIONS]..."),
        ],
        help=f"Locates the slow part among the nodes of a job of `busbw launch {launch_command.name}`.",
        epilog="All other options are engine flags, such as --backend; `busbw-engine flows --help` lists them.",
    )
