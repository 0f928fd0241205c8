"""Finds captures in files and folders, and examines them. A capture holds all that the checks read on one node."""

import os
import platform
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from busbw.doctor.model import Check, Machine
from busbw.doctor.node_record import NodeRecord, examine_node
from busbw.doctor.open_machine import open_machine
from busbw.doctor.sources.capture import MANIFEST
from busbw.engine import NODE_NAME_VARIABLE
from busbw.errors import UsageError

_NODE_PLACEHOLDER = "{node}"
"""Stands for the name of the node in --root."""
_ARCHIVE_SUFFIX = re.compile(r"\.(?:tar\.gz|tgz|tar)$")


def this_node() -> str:
    """Returns the name of this node in Slurm or Kubernetes, else the host name up to the first dot."""
    name = os.environ.get("SLURMD_NODENAME") or os.environ.get(NODE_NAME_VARIABLE)
    return name or platform.node().partition(".")[0]


def capture_paths(roots: Sequence[Path]) -> tuple[Path, ...]:
    """Returns the captures that `--root` names: archives, unpacked archives, and the captures in other folders.

    Raises:
        UsageError: A file does not exist, or a folder has no capture.
    """
    paths: list[Path] = []
    for root in roots:
        path = Path(str(root).replace(_NODE_PLACEHOLDER, this_node()))
        if not path.exists():
            raise UsageError(f"--root {path} does not exist", remedy="write a capture with busbw doctor --capture FILE")
        captures = captures_in(path) if path.is_dir() and not _is_unpacked(path) else (path,)
        if not captures:
            raise UsageError(f"--root {path} has no capture", remedy="name a folder with archives (.tar.gz)")
        paths += captures
    return tuple(paths)


def captures_in(folder: Path) -> tuple[Path, ...]:
    """Returns the archives and the unpacked captures in a folder, by name."""
    return tuple(path for path in sorted(folder.iterdir()) if _ARCHIVE_SUFFIX.search(path.name) or _is_unpacked(path))


def _is_unpacked(folder: Path) -> bool:
    return (folder / MANIFEST).exists()


def records_of_captures(paths: Sequence[Path], checks: Sequence[Check[Any]]) -> tuple[NodeRecord, ...]:
    """Examines captures. The name of a node is the name of its file, without the suffix of an archive."""
    records: list[NodeRecord] = []
    for path in paths:
        node = _ARCHIVE_SUFFIX.sub("", path.resolve().name)
        try:
            with open_machine(path) as recording:
                records.append(examine_node(node, Machine(recording), checks))
        except UsageError as error:
            records.append(NodeRecord(node=node, problem=error.problem))
    return with_unique_names(records)


def with_unique_names(records: Sequence[NodeRecord]) -> tuple[NodeRecord, ...]:
    """Returns the records with unique names: the second node with the name "a" becomes "a (2)"."""
    counts: Counter[str] = Counter()
    unique: list[NodeRecord] = []
    for record in records:
        counts[record.node] += 1
        suffix = f" ({counts[record.node]})" if counts[record.node] > 1 else ""
        unique.append(replace(record, node=f"{record.node}{suffix}"))
    return tuple(unique)
