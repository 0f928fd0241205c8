"""Records that the nodes of a job print for process 0 (busbw-engine each-node)."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from busbw.doctor.captured_nodes import capture_paths, this_node, with_unique_names
from busbw.doctor.model import Check, Machine
from busbw.doctor.node_record import NodeRecord, examine_node
from busbw.doctor.open_machine import open_machine
from busbw.errors import BusbwError
from busbw.units import plain

_MAX_SHOWN_CHARACTERS = 80
"""Maximum length of an unexpected output in a message."""


class _NodeOutput(Struct, frozen=True):
    """Line of the engine with the output of one node."""

    node: str
    problem: str
    """Reason why the command on the node failed. Empty if it succeeded."""
    output: str


def print_own_record(roots: Sequence[Path], checks: Sequence[Check[Any]]) -> None:
    """Prints the record of this node as JSON. With `roots`, examines the first capture instead of the node."""
    node = this_node()
    try:
        with open_machine(capture_paths(roots)[0] if roots else None) as recording:
            record = examine_node(node, Machine(recording), checks)
    except BusbwError as error:
        record = NodeRecord(node=node, problem=error.problem)
    click.echo(msgspec.json.encode(record))


def gathered_records(lines: Iterable[bytes] | None = None) -> tuple[NodeRecord, ...]:
    """Returns the records of all nodes of a job from the engine's lines. Reads stdin if `lines` is None."""
    outputs = sys.stdin.buffer if lines is None else lines
    return with_unique_names([_record_of(line) for line in outputs])


def _record_of(line: bytes) -> NodeRecord:
    """Returns the record that a node printed, or a record with the problem if the node printed none."""
    try:
        output = msgspec.json.decode(line, type=_NodeOutput)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the engine was killed while it wrote
        output = _NodeOutput(node="unknown", problem="", output=line.decode(errors="replace"))
    problem = output.problem
    if not problem:
        try:
            return msgspec.json.decode(output.output, type=NodeRecord)
        except (msgspec.DecodeError, RecursionError):
            first_line = plain(output.output.partition("\n")[0])[:_MAX_SHOWN_CHARACTERS]
            problem = f'the command printed no record of this version of busbw but "{first_line}"'
    return NodeRecord(node=plain(output.node), problem=problem)
