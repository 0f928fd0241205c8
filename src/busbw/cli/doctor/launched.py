"""`busbw doctor LAUNCHER`: the checks on each node of a job, with the options of `busbw launch LAUNCHER`.

The engine runs `busbw doctor --node-record` on each node. Process 0 gives all records to `busbw doctor --merge`, which
prints the result, because launchers only follow the output of process 0.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import msgspec

from busbw.cli.doctor.exports import EXPORTS
from busbw.cli.lazy import LazyGroup
from busbw.cli.options.export_options import write_exports
from busbw.cli.options.launcher_options import option_words, split_launcher_options
from busbw.doctor.result import Result
from busbw.engine import EACH_NODE

_NODE_OPTIONS = {"roots", "only", "ignored"}
"""Options of `busbw doctor` that each node gets."""
_RESULT_OPTIONS = {"only", "ignored", "fail_on", "as_json"}
"""Options of `busbw doctor` that process 0 gets."""
_UNUSED_VALUES = {
    "plot_when": "never",
    "steps": 1,
    "processes": 1,
    "processes_per_node": 1,
    "records_path": None,
    "store": None,
}
"""Values of the options of launchers that concern a measurement. Checks do not have these options."""


class DoctorGroup(LazyGroup):
    """`busbw doctor`: its commands are those of `busbw launch`, which start the checks instead of a collective."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Returns the checks with this launcher. None if there is no such launcher."""
        command = super().get_command(context, name)
        options = [each for each in self.params if each.name in _NODE_OPTIONS | _RESULT_OPTIONS]
        files = [each for each in self.params if each.opts[0] in EXPORTS]
        return command and _doctor_command(command, options, files)


def _doctor_command(
    launch_command: click.Command, options: Sequence[click.Parameter], files: Sequence[click.Parameter]
) -> click.Command:
    launch = launch_command.callback
    assert launch is not None
    launcher_options, unused = split_launcher_options(launch_command, _UNUSED_VALUES)

    def start(**values: Any) -> int:
        words: dict[str, list[str]] = {
            each.name or "": option_words(each, values.pop(each.name or "")) for each in options
        }
        node_command = ["busbw", "doctor", "--node-record", *_chosen(words, _NODE_OPTIONS)]
        result_command = ["busbw", "doctor", "--merge", *_chosen(words, _RESULT_OPTIONS)]
        paths = {each.opts[0]: values.pop(each.name or "") for each in files}
        if any(paths.values()):
            result_command.append("--also-json")

        def is_result_shown(line: bytes) -> bool:
            write_exports(EXPORTS, msgspec.json.decode(line, type=Result), paths)
            return "--json" in result_command

        engine_words = (EACH_NODE, shlex.join(node_command), shlex.join(result_command))
        with TemporaryDirectory(prefix="busbw-") as folder:  # of a run, which stays empty
            if "store" in unused:
                unused["store"] = Path(folder)
            code: int = launch(words=(), engine_words=engine_words, is_result_shown=is_result_shown, **unused, **values)
        return code

    return click.Command(
        launch_command.name,
        callback=start,
        params=[*launcher_options, *options, *files],
        help=f"Checks each node of a job of `busbw launch {launch_command.name}`, and compares the nodes.",
        epilog="{node} in --root stands for the name of the node. Each node needs the busbw command.",
    )


def _chosen(words: dict[str, list[str]], names: set[str]) -> list[str]:
    return [word for name in words if name in names for word in words[name]]
