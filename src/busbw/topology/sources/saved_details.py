"""Reads output saved with a matrix: nvidia-smi's summary, a query as CSV, `nvidia-smi nvlink -s`, nccl-tests logs.

A property with contradictory values stays unknown, with a note.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from msgspec.structs import replace

from busbw.topology.sources.link_rates import pcie_gbps
from busbw.topology.sources.pci_paths import bus_id_of
from busbw.topology.types import Driver, Gpu, Host, NvLinks, Pcie, Topology
from busbw.units import plain

T = TypeVar("T")

_MIB = 2**20
_MAX_HOSTS = 6
"""Maximum number of hosts in a note."""

_SUMMARY = re.compile(
    r"\|\s{0,9}(\d{1,4})\s+(\S[^|]{0,60}?)\s+(?:On|Off|N/A)\s*\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s.*",
    re.ASCII,
)
_SUMMARY_MEMORY = re.compile(r"\|[^|]*\|\s*\d{1,9}MiB\s*/\s*(\d{1,9})MiB\s*\|[^|]*\|", re.ASCII)
"""Second line of a GPU."""
_SUMMARY_MIG = re.compile(r"\|\s*\|\s*\|\s*(Enabled|Disabled|N/A)\*?\s*\|")
"""Third line of a GPU. A star marks a mode that changes with the next reset."""
_SUMMARY_DRIVER = re.compile(
    r"\|\s*NVIDIA-SMI\s+\S{1,20}\s+Driver Version:\s+(\d[\d.]{0,19})(?:\s+CUDA Version:\s+(\d{1,3}\.\d{1,2}))?[^|]*\|",
    re.ASCII,
)
_LISTED = re.compile(r"\s*GPU (\d{1,4}): ([^()]{1,60}?)\s*(?:\(UUID:.*)?", re.ASCII)
_LINK = re.compile(r"\s*Link (\d{1,2}): (?:(\d{1,4}(?:\.\d{1,6})?) GB/s|<?inactive>?)\s*", re.ASCII | re.IGNORECASE)
_RANK = re.compile(
    r"#\s{0,9}Rank\s{1,9}\d{1,9}\s.{0,60}\bon\s{1,20}(\S{1,255})"
    r" device\s{1,9}\d{1,4} \[[^\]]{0,20}\]\s{1,9}(\S.{0,80})",
    re.ASCII,
)
"""Line of nccl-tests with the host and the GPU of a rank."""
_PROCESSOR = re.compile(r"\s{0,9}Model name:\s{2,99}(\S.{0,99}?)\s{0,9}")
"""Line of lscpu, which aligns its values. A single space would also match other text, such as a language model."""
_MIG_MODES: Mapping[str, Literal["enabled", "disabled"] | None] = {
    "Enabled": "enabled",
    "Disabled": "disabled",
    "N/A": None,
}
"""Word to mode. None: the GPU does not support MIG."""


@dataclass
class SavedDetails:
    """Properties of a machine and, by index, of its GPUs, each with all values in the text."""

    names: dict[int, set[str]] = field(default_factory=dict)
    bus_ids: dict[int, set[str]] = field(default_factory=dict)
    pcie: dict[int, set[tuple[int | None, int | None]]] = field(default_factory=dict)
    """Maximum generation and width."""
    links: dict[int, dict[int, float | None]] = field(default_factory=dict)
    """Line rate in GB/s by GPU and link; None if the link is down."""
    memory_bytes: dict[int, set[int]] = field(default_factory=dict)
    mig: dict[int, set[str]] = field(default_factory=dict)
    """Keys of _MIG_MODES."""
    drivers: set[str] = field(default_factory=set)
    cudas: set[str] = field(default_factory=set)
    hosts: dict[str, set[str]] = field(default_factory=dict)
    """Names of the GPUs by host name."""
    processors: set[str] = field(default_factory=set)


def details(lines: Sequence[str]) -> SavedDetails:
    """Collects the details in all lines."""
    found = SavedDetails()
    _take_summary(lines, found)
    _take_links(lines, found)
    _read_query(lines, found)
    for line in lines:
        if match := _RANK.search(line):
            found.hosts.setdefault(plain(match[1]), set()).add(plain(match[2]).strip())
        elif match := _PROCESSOR.fullmatch(line):
            found.processors.add(plain(match[1]))
    return found


def _take_summary(lines: Sequence[str], found: SavedDetails) -> None:
    """Reads the summary that `nvidia-smi` prints without options."""
    gpu: int | None = None
    for line in filter(None, map(str.strip, lines)):
        if match := _SUMMARY_DRIVER.fullmatch(line):
            found.drivers.add(match[1])
            found.cudas.update(filter(None, [match[2]]))
        elif match := _SUMMARY.fullmatch(line):
            gpu = int(match[1])
            found.names.setdefault(gpu, set()).add(plain(match[2]))
            found.bus_ids.setdefault(gpu, set()).add(bus_id_of(match[3]) or match[3])
        elif gpu is not None and (match := _SUMMARY_MEMORY.fullmatch(line)):
            found.memory_bytes.setdefault(gpu, set()).add(int(match[1]) * _MIB)
        elif gpu is not None and (match := _SUMMARY_MIG.fullmatch(line)):
            found.mig.setdefault(gpu, set()).add(match[1])
        else:
            gpu = None


def _take_links(lines: Sequence[str], found: SavedDetails) -> None:
    """Reads the output of `nvidia-smi nvlink -s`."""
    gpu: int | None = None
    for line in lines:
        if match := _LISTED.fullmatch(line):
            gpu = int(match[1])
            found.names.setdefault(gpu, set()).add(plain(match[2]))
        elif gpu is not None and (match := _LINK.fullmatch(line)):
            found.links.setdefault(gpu, {})[int(match[1])] = float(match[2]) if match[2] else None
        elif line.strip():
            gpu = None


def _read_query(lines: Sequence[str], found: SavedDetails) -> None:
    for index, row in _queried(lines):
        if name := row.get("name"):
            found.names.setdefault(index, set()).add(plain(name))
        if bus_id := bus_id_of(row.get("pci.bus_id", "")):
            found.bus_ids.setdefault(index, set()).add(bus_id)
        generation, width = _number(row.get("pcie.link.gen.max")), _number(row.get("pcie.link.width.max"))
        if generation or width:
            found.pcie.setdefault(index, set()).add((generation, width))
        if memory := re.fullmatch(r"(\d{1,9})(?: MiB)?", row.get("memory.total", ""), re.ASCII):
            found.memory_bytes.setdefault(index, set()).add(int(memory[1]) * _MIB)
        if (mode := row.get("mig.mode.current", "").strip("[]")) in _MIG_MODES:
            found.mig.setdefault(index, set()).add(mode)
        if re.fullmatch(r"\d[\d.]{0,19}", version := row.get("driver_version", ""), re.ASCII):
            found.drivers.add(version)


def _queried(lines: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields the rows of `nvidia-smi --query-gpu=index,name,... --format=csv`."""
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


def index_of(gpu: Gpu) -> int:
    """Returns the GPU's index in `SavedDetails`."""
    return int(gpu.label.removeprefix("GPU"))


def with_details(topology: Topology, known: SavedDetails) -> Topology:
    """Adds the details outside the matrix to a topology."""
    gpus, notes = [], list(topology.notes)
    for gpu in topology.gpus or ():
        index = index_of(gpu)
        disputed = [
            name
            for name, values in (
                ("name", known.names),
                ("bus id", known.bus_ids),
                ("memory", known.memory_bytes),
                ("PCIe link", known.pcie),
                ("MIG mode", known.mig),
            )
            if len(values.get(index, ())) > 1
        ]
        notes += [f"the text gives {gpu.label} more than one {name}" for name in disputed]
        generation, width = _single_value_of(known.pcie, index) or (None, None)
        pcie = Pcie(max_generation=generation, max_width=width, max_gbps=pcie_gbps(generation, width))
        gpus.append(
            replace(
                gpu,
                name=_single_value_of(known.names, index),
                bus_id=_single_value_of(known.bus_ids, index),
                memory_bytes=_single_value_of(known.memory_bytes, index),
                pcie=None if pcie == Pcie() else pcie,
                nvlinks=_nvlinks(known.links.get(index)),
                mig_mode=_MIG_MODES[_single_value_of(known.mig, index) or "N/A"],
            )
        )
    for name, values in (
        ("driver version", known.drivers),
        ("CUDA version", known.cudas),
        ("processor", known.processors),
    ):
        notes += [f"the text gives more than one {name}"] if len(values) > 1 else []
    driver = Driver(version=_single_value(known.drivers), cuda_version=_single_value(known.cudas))
    host = Host(name=_host_name(known, gpus), processor=_single_value(known.processors))
    if known.hosts and host.name is None:
        named = ", ".join(list(known.hosts)[:_MAX_HOSTS])
        more = len(known.hosts) - _MAX_HOSTS
        named += f" and {more} more" if more > 0 else ""
        notes.append(f"the host of the matrix is uncertain; the text names {named}")
    return replace(
        topology,
        host=None if host == Host() else host,
        driver=None if driver == Driver() else driver,
        gpus=tuple(gpus),
        notes=tuple(notes),
    )


def _host_name(known: SavedDetails, gpus: Sequence[Gpu]) -> str | None:
    """Returns the only host in the text if it has the GPUs of the matrix; otherwise None."""
    name = _single_value(set(known.hosts))
    return name if name and known.hosts[name] <= {gpu.name for gpu in gpus} else None


def _single_value_of(values: dict[int, set[T]], index: int) -> T | None:
    return _single_value(values.get(index, set()))


def _single_value(values: set[T]) -> T | None:
    return next(iter(values)) if len(values) == 1 else None


def _nvlinks(links: dict[int, float | None] | None) -> NvLinks | None:
    if links is None:
        return None
    rates = {rate for rate in links.values() if rate is not None}
    active = sum(rate is not None for rate in links.values())
    return NvLinks(active=active, line_gbps=next(iter(rates)) if len(rates) == 1 else None)
