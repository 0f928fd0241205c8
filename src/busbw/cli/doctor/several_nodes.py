"""Records that the nodes of a job print for process 0 (busbw-engine each-node), and captures for the launcher."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from busbw.cli.options.output_file import require_writable, write_whole
from busbw.doctor.captured_nodes import capture_paths, captures_in, this_node, with_unique_names
from busbw.doctor.model import Check, Machine
from busbw.doctor.node_record import NodeRecord, examine_node
from busbw.doctor.open_machine import open_machine, redacted_archive
from busbw.errors import BusbwError, UsageError
from busbw.units import plain

_MAX_SHOWN_CHARACTERS = 80
"""Maximum length of an unexpected output in a message."""
_MAX_CAPTURE_BYTES = 640 << 10
"""Maximum length of a capture. The engine accepts 1 MiB from a node, and base64 adds a third."""


class _NodeOutput(Struct, frozen=True):
    """Line of the engine with the output of one node."""

    node: str
    problem: str
    """Reason why the command on the node failed. Empty if it succeeded."""
    output: str


class _NodeCapture(Struct, frozen=True):
    """Line of process 0 with the capture of one node."""

    node: str
    capture: bytes


def print_own_record(roots: Sequence[Path], checks: Sequence[Check[Any]], *, with_capture: bool) -> None:
    """Prints the record of this node as JSON. With `roots`, examines the first capture instead of the node."""
    node = this_node()
    try:
        with open_machine(capture_paths(roots)[0] if roots else None) as recording:
            record = examine_node(node, Machine(recording), checks)
            if with_capture:
                archive = redacted_archive(recording, is_this_machine=not roots)
                if len(archive) <= _MAX_CAPTURE_BYTES:
                    record = replace(record, capture=archive)
    except BusbwError as error:
        record = NodeRecord(node=node, problem=error.problem)
    click.echo(msgspec.json.encode(record))


def gathered_records(lines: Iterable[bytes] | None = None) -> tuple[NodeRecord, ...]:
    """Returns the records of all nodes of a job from the engine's lines. Reads stdin if `lines` is None."""
    outputs = sys.stdin.buffer if lines is None else lines
    return with_unique_names([_record_of(msgspec.json.decode(line, type=_NodeOutput)) for line in outputs])


def _record_of(output: _NodeOutput) -> NodeRecord:
    """Returns the record that a node printed, or a record with the problem if the node printed none."""
    problem = output.problem
    if not problem:
        try:
            return msgspec.json.decode(output.output, type=NodeRecord)
        except (msgspec.DecodeError, RecursionError):
            first_line = plain(output.output.partition("\n")[0])[:_MAX_SHOWN_CHARACTERS]
            problem = f'the command printed no record of this version of busbw but "{first_line}"'
    return NodeRecord(node=plain(output.node), problem=problem)


def print_captures(records: Sequence[NodeRecord]) -> None:
    """Prints a line for `write_capture` for each capture. Names on stderr the nodes with a too long capture."""
    for record in records:
        if record.capture:
            click.echo(msgspec.json.encode(_NodeCapture(record.node, record.capture)))
        elif not record.problem:  # the result already names the nodes with a problem
            text = f"{plain(record.node)} has no capture: it is longer than {_MAX_CAPTURE_BYTES >> 10} KiB"
            click.echo(f"busbw doctor: {text}; run busbw doctor --capture FILE on the node", err=True)


def require_new_captures(_context: click.Context, option: click.Parameter, folder: Path | None) -> Path | None:
    """Checks the folder for captures before the job starts.

    Raises:
        BusbwError: The folder cannot be written.
        UsageError: The folder has captures, which would count as nodes of this job.
    """
    if folder is not None:
        is_present = folder.is_dir()
        require_writable(folder / ".new-capture" if is_present else folder, flag=option.opts[0])
        if is_present and captures_in(folder):
            raise UsageError(f"{option.opts[0]} {folder} has captures already", remedy="name a new folder")
    return folder


def write_capture(folder: Path, line: bytes) -> bool:
    """Writes the capture in a line of process 0 to the folder. Returns False if the line is no capture.

    Raises:
        BusbwError: The file cannot be written.
    """
    try:
        content = msgspec.json.decode(line, type=_NodeCapture)
    except (msgspec.DecodeError, RecursionError):
        return False
    with suppress(OSError):  # without the folder, `write_whole` reports the error
        folder.mkdir(exist_ok=True)
    # Another machine stated this name, so it must not lead to another folder.
    name = plain(content.node).replace("/", "_")
    write_whole(folder / f"{name}.tar.gz", content.capture, flag="--capture")
    return True
