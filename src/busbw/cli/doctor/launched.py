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
_FIXED_VALUES = {
    "plot_when": "never",
    "steps": 1,
    "processes": 1,
    "processes_per_node": 1,
    "records_path": None,
    "store": None,
}
"""Launcher options that concern only measurements, with the value that `busbw doctor` passes for each.

The user cannot set them here.
"""


class DoctorGroup(LazyGroup):
    """`busbw doctor`: its commands are those of `busbw launch`, which start the checks instead of a collective."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Returns the checks with this launcher. None if there is no such launcher."""
        command = super().get_command(context, name)
        options = [each for each in self.params if each.name in _NODE_OPTIONS | _RESULT_OPTIONS]
        export_options = [each for each in self.params if each.opts[0] in EXPORTS]
        return command and _doctor_command(command, options, export_options)


def _doctor_command(
    launch_command: click.Command, options: Sequence[click.Parameter], export_options: Sequence[click.Parameter]
) -> click.Command:
    launch = launch_command.callback
    assert launch is not None
    launcher_options, fixed_values = split_launcher_options(launch_command, _FIXED_VALUES)

    def start(**values: Any) -> int:
        words: dict[str, list[str]] = {
            each.name or "": option_words(each, values.pop(each.name or "")) for each in options
        }
        node_command = ["busbw", "doctor", "--node-record", *_chosen(words, _NODE_OPTIONS)]
        result_command = ["busbw", "doctor", "--merge", *_chosen(words, _RESULT_OPTIONS)]
        export_paths = {each.opts[0]: values.pop(each.name or "") for each in export_options}
        if any(export_paths.values()):
            result_command.append("--also-json")

        def handle_result(line: bytes) -> bool:
            """Writes the requested export files. Returns True if the JSON result is printed too."""
            write_exports(EXPORTS, msgspec.json.decode(line, type=Result), export_paths)
            return "--json" in result_command

        engine_words = (EACH_NODE, shlex.join(node_command), shlex.join(result_command))
        with TemporaryDirectory(prefix="busbw-") as folder:  # for the run's folder; checks write no record
            if "store" in fixed_values:
                fixed_values["store"] = Path(folder)
            code: int = launch(
                words=(), engine_words=engine_words, handle_result=handle_result, **fixed_values, **values
            )
        return code

    return click.Command(
        launch_command.name,
        callback=start,
        params=[*launcher_options, *options, *export_options],
        help=f"Checks each node of a job of `busbw launch {launch_command.name}`, and compares the nodes.",
        epilog="{node} in --root stands for the name of the node. Each node needs the busbw command.",
    )


def _chosen(words: dict[str, list[str]], names: set[str]) -> list[str]:
    return [word for name in words if name in names for word in words[name]]
