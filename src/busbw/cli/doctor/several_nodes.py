"""Several nodes: captures, and records that nodes of a job print for process 0 (busbw-engine each-node)."""

import os
import platform
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from busbw.doctor.compared_values import NodeValues
from busbw.doctor.model import Check, Machine
from busbw.doctor.node_record import NodeRecord, examine_node
from busbw.doctor.open_machine import open_machine
from busbw.doctor.sources.capture import MANIFEST
from busbw.errors import BusbwError, UsageError
from busbw.units import plain

NODE_PLACEHOLDER = "{node}"
"""Stands for the name of the node in --root."""
_ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".tar")


class _NodeOutput(Struct, frozen=True):
    """Line of the engine with the output of one node."""

    node: str
    problem: str
    output: str


def this_node() -> str:
    """Returns Slurm's name of this node, else the host name up to the first dot."""
    return os.environ.get("SLURMD_NODENAME") or platform.node().partition(".")[0]


def capture_paths(roots: Sequence[Path]) -> tuple[Path, ...]:
    """Returns the captures that `--root` names: archives, folders of unpacked ones, and folders with captures.

    Raises:
        UsageError: A file or folder does not exist.
    """
    paths: list[Path] = []
    for root in roots:
        path = Path(str(root).replace(NODE_PLACEHOLDER, this_node()))
        if not path.exists():
            raise UsageError(f"--root {path} does not exist", remedy="write a capture with busbw doctor --capture FILE")
        inner = sorted(path.iterdir()) if path.is_dir() and not (path / MANIFEST).exists() else []
        paths += [each for each in inner if each.name.endswith(_ARCHIVE_SUFFIXES) or (each / MANIFEST).exists()] or [
            path
        ]
    return tuple(paths)


def records_of_captures(paths: Sequence[Path], checks: Sequence[Check[Any]]) -> tuple[NodeRecord, ...]:
    """Examines captures. Their nodes have the names of the files."""
    records: list[NodeRecord] = []
    for path in paths:
        name = path.resolve().name
        node = next((name.removesuffix(suffix) for suffix in _ARCHIVE_SUFFIXES if name.endswith(suffix)), name)
        try:
            with open_machine(path) as recording:
                records.append(examine_node(node, Machine(recording), checks))
        except UsageError as error:
            if len(paths) == 1:
                raise
            records.append(NodeRecord(values=NodeValues(node=node), problem=error.problem))
    return _with_unique_names(records)


def print_own_record(roots: Sequence[Path], checks: Sequence[Check[Any]]) -> None:
    """Prints the record of this node, or of the capture that stands for it, as JSON."""
    node = this_node()
    try:
        with open_machine(capture_paths(roots)[0] if roots else None) as recording:
            record = examine_node(node, Machine(recording), checks)
    except BusbwError as error:
        record = NodeRecord(values=NodeValues(node=node), problem=error.problem)
    click.echo(msgspec.json.encode(record))


def gathered_records(lines: Iterable[bytes] | None = None) -> tuple[NodeRecord, ...]:
    """Returns the records of all nodes of a job from the engine's lines. Default: those on stdin."""
    records: list[NodeRecord] = []
    for line in sys.stdin.buffer if lines is None else lines:
        output = msgspec.json.decode(line, type=_NodeOutput)
        problem = output.problem
        if not problem:
            try:
                records.append(msgspec.json.decode(output.output, type=NodeRecord))
                continue
            except (msgspec.DecodeError, RecursionError):
                first_line = plain(output.output.partition("\n")[0])[:80]
                problem = f'the command printed no record of this version of busbw but "{first_line}"'
        records.append(NodeRecord(values=NodeValues(node=plain(output.node)), problem=problem))
    return _with_unique_names(records)


def _with_unique_names(records: Sequence[NodeRecord]) -> tuple[NodeRecord, ...]:
    """Returns the records with a number behind a name that occurred before."""
    counts: Counter[str] = Counter()
    unique: list[NodeRecord] = []
    for record in records:
        name = record.values.node
        counts[name] += 1
        suffix = f" ({counts[name]})" if counts[name] > 1 else ""
        values = msgspec.structs.replace(record.values, node=f"{name}{suffix}")
        unique.append(msgspec.structs.replace(record, values=values))
    return tuple(unique)
