"""`busbw doctor LAUNCHER`: the checks on each node of a job, with the options of `busbw launch LAUNCHER`.

The engine runs `busbw doctor --node-record` on each node. Process 0 gives all records to `busbw doctor --merge`, which
prints the result, because launchers only follow the output of process 0.
"""

import shlex
from itertools import chain

import click

from busbw.cli.doctor.exports import EXPORTS
from busbw.cli.lazy import LazyGroup
from busbw.cli.options.launcher_options import ALSO_JSON, Words, launched_command
from busbw.doctor.result import Result
from busbw.engine import EACH_NODE

_NODE_OPTIONS = {"roots", "only", "ignored"}
"""Options of `busbw doctor` that each node gets."""
_RESULT_OPTIONS = {"only", "ignored", "fail_on", "as_json"}
"""Options of `busbw doctor` that process 0 gets."""
_FIXED_VALUES = {
    # A check has no table, runs once, and leaves no record. `launched_command` replaces the store.
    "plot_when": "never",
    "steps": 1,
    "records_path": None,
    "store": None,
    # One process examines a whole node.
    "processes": 1,
    "processes_per_node": 1,
}
"""Values of launcher options that the user of `busbw doctor` cannot set."""


class DoctorGroup(LazyGroup):
    """Group `busbw doctor` with the commands of `busbw launch`, which here start checks instead of a collective."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Returns the command that starts checks with this launcher. None if there is no such launcher."""
        launch_command = super().get_command(context, name)
        if launch_command is None:
            return None
        command = launched_command(
            launch_command,
            self.params,
            passed_on=_NODE_OPTIONS | _RESULT_OPTIONS,
            exports=EXPORTS,
            result_type=Result,
            fixed_values=_FIXED_VALUES,
            make_engine_words=_engine_words,
        )
        command.help = f"Checks each node of a job of `busbw launch {name}`, and compares the nodes."
        command.epilog = "{node} in --root stands for the name of the node. Each node needs the busbw command."
        return command


def _engine_words(words: Words) -> tuple[str, ...]:
    """Returns the first arguments of the engine. `words` has the words of each option that the user set."""
    node_command = ["busbw", "doctor", "--node-record", *_words_of_options(words, _NODE_OPTIONS)]
    result_command = ["busbw", "doctor", "--merge", *_words_of_options(words, _RESULT_OPTIONS | {ALSO_JSON})]
    return EACH_NODE, shlex.join(node_command), shlex.join(result_command)


def _words_of_options(words: Words, names: set[str]) -> list[str]:
    """Returns the words of the options with these parameter names."""
    return list(chain.from_iterable(words[name] for name in words if name in names))
