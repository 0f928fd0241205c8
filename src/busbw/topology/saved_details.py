"""What people save beside a matrix: the summary of nvidia-smi, a query as CSV, `nvidia-smi nvlink -s`.

A number of a GPU that two places describe differently is left unknown, with a note.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from busbw.topology.pci_paths import bus_id_of
from busbw.topology.rates import pcie_gbps
from busbw.topology.types import NvLinks, Pcie, Topology
from busbw.units import plain

T = TypeVar("T")

_SUMMARY = re.compile(
    r"\|\s{0,9}(\d{1,4})\s+(\S[^|]{0,60}?)\s+(?:On|Off|N/A)\s*\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s.*",
    re.ASCII,
)
_LISTED = re.compile(r"\s*GPU (\d{1,4}): ([^()]{1,60}?)\s*(?:\(UUID:.*)?", re.ASCII)
_LINK = re.compile(r"\s*Link (\d{1,2}): (?:(\d{1,4}(?:\.\d{1,6})?) GB/s|<?inactive>?)\s*", re.ASCII | re.IGNORECASE)


@dataclass
class Details:
    """What a text says of GPUs by index, each thing with all values that it says."""

    names: dict[int, set[str]] = field(default_factory=dict)
    bus_ids: dict[int, set[str]] = field(default_factory=dict)
    pcie: dict[int, set[tuple[int | None, int | None]]] = field(default_factory=dict)
    """Largest generation and width."""
    links: dict[int, dict[int, float | None]] = field(default_factory=dict)
    """By GPU and link: GB/s of its line, or None where it is down."""


def details(lines: Sequence[str]) -> Details:
    """Looks through all lines."""
    found = Details()
    gpu: int | None = None
    for line in lines:
        if match := _SUMMARY.fullmatch(line.strip()):
            index = int(match[1])
            found.names.setdefault(index, set()).add(plain(match[2]))
            found.bus_ids.setdefault(index, set()).add(bus_id_of(match[3]) or match[3])
        elif match := _LISTED.fullmatch(line):
            gpu = int(match[1])
            found.names.setdefault(gpu, set()).add(plain(match[2]))
        elif gpu is not None and (match := _LINK.fullmatch(line)):
            found.links.setdefault(gpu, {})[int(match[1])] = float(match[2]) if match[2] else None
        elif line.strip():
            gpu = None
    for index, row in _queried(lines):
        if name := row.get("name"):
            found.names.setdefault(index, set()).add(plain(name))
        if bus_id := bus_id_of(row.get("pci.bus_id", "")):
            found.bus_ids.setdefault(index, set()).add(bus_id)
        generation, width = _number(row.get("pcie.link.gen.max")), _number(row.get("pcie.link.width.max"))
        if generation or width:
            found.pcie.setdefault(index, set()).add((generation, width))
    return found


def _queried(lines: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of `nvidia-smi --query-gpu=index,name,... --format=csv`."""
    columns: list[str] = []
    for line in lines:
        words = [word.strip() for word in line.split(",")]
        if words[0] == "index" and len(words) > 1:
            columns = [word.split(" ")[0] for word in words]
        elif columns and len(words) == len(columns) and re.fullmatch(r"\d{1,4}", words[0], re.ASCII):
            yield int(words[0]), dict(zip(columns, words, strict=True))
        else:
            columns = []


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"[1-9]\d?", text, re.ASCII) else None


def detailed(topology: Topology, known: Details) -> Topology:
    """The topology with what the text says beside its matrix."""
    gpus, notes = [], list(topology.notes)
    for gpu in topology.gpus or ():
        index = int(gpu.label.removeprefix("GPU"))
        disputed = [
            what
            for what, values in (("name", known.names), ("bus id", known.bus_ids), ("PCIe link", known.pcie))
            if len(values.get(index, ())) > 1
        ]
        notes += [f"the text gives {gpu.label} more than one {what}" for what in disputed]
        generation, width = _only(known.pcie, index) or (None, None)
        pcie = Pcie(max_generation=generation, max_width=width, max_gbps=pcie_gbps(generation, width))
        gpus.append(
            replace(
                gpu,
                name=_only(known.names, index),
                bus_id=_only(known.bus_ids, index),
                pcie=None if pcie == Pcie() else pcie,
                nvlinks=_nvlinks(known.links.get(index)),
            )
        )
    return replace(topology, gpus=tuple(gpus), notes=tuple(notes))


def _only(values: dict[int, set[T]], index: int) -> T | None:
    found = values.get(index, set())
    return next(iter(found)) if len(found) == 1 else None


def _nvlinks(links: dict[int, float | None] | None) -> NvLinks | None:
    if links is None:
        return None
    rates = {rate for rate in links.values() if rate is not None}
    active = sum(rate is not None for rate in links.values())
    return NvLinks(active=active, line_gbps=next(iter(rates)) if len(rates) == 1 else None)
