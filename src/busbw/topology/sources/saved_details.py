"""Reads other output that was saved with a matrix of `nvidia-smi topo -m`, and adds its details to the topology.

The text may contain nvidia-smi's summary, a query as CSV, `nvidia-smi nvlink -s`, lscpu's output, and nccl-tests logs.
A property with contradictory values stays unknown, with a note.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from msgspec.structs import replace

from busbw.topology.sources.link_rates import pcie_gbps
from busbw.topology.sources.pci_paths import bus_id_of
from busbw.topology.types import Driver, Gpu, Host, NvLinks, Pcie, Topology
from busbw.units import names_text, plain

T = TypeVar("T")

_MIB = 2**20
_MAX_HOSTS = 6
"""Maximum number of hosts in a note."""

_SUMMARY_GPU = re.compile(
    r"\|\s{0,9}(\d{1,4})\s+(\S[^|]{0,60}?)\s+(?:On|Off|N/A)\s*\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s.*",
    re.ASCII,
)
"""First line of a GPU in nvidia-smi's summary: "|   0  NVIDIA H200    On  |   00000000:18:00.0 Off |    0 |"."""
_SUMMARY_MEMORY = re.compile(r"\|[^|]*\|\s*\d{1,9}MiB\s*/\s*(\d{1,9})MiB\s*\|[^|]*\|", re.ASCII)
"""Second line of a GPU, with its memory: "| N/A  33C  P0  76W / 700W |  1MiB / 143771MiB |  0%  Default |"."""
_SUMMARY_MIG = re.compile(r"\|\s*\|\s*\|\s*(Enabled|Disabled|N/A)\*?\s*\|")
"""Third line of a GPU, with its MIG mode: "|  |  |  Disabled |". A star marks a mode until the next reset."""
_SUMMARY_DRIVER = re.compile(
    r"\|\s*NVIDIA-SMI\s+\S{1,20}\s+Driver Version:\s+(\d[\d.]{0,19})(?:\s+CUDA Version:\s+(\d{1,3}\.\d{1,2}))?[^|]*\|",
    re.ASCII,
)
"""Line with the versions of the driver and of CUDA in nvidia-smi's summary."""
_NVLINK_GPU = re.compile(r"\s*GPU (\d{1,4}): ([^()]{1,60}?)\s*(?:\(UUID:.*)?", re.ASCII)
"""Line of a GPU in `nvidia-smi nvlink -s`, above the lines of its links: "GPU 0: NVIDIA H200 (UUID: GPU-1b2c)"."""
_NVLINK = re.compile(r"\s*Link (\d{1,2}): (?:(\d{1,4}(?:\.\d{1,6})?) GB/s|<?inactive>?)\s*", re.ASCII | re.IGNORECASE)
"""Line of a link: "Link 0: 26.562 GB/s", or "Link 0: <inactive>" if it is down."""
_RANK = re.compile(
    r"#\s{0,9}Rank\s{1,9}\d{1,9}\s.{0,60}\bon\s{1,20}(\S{1,255})"
    r" device\s{1,9}\d{1,4} \[[^\]]{0,20}\]\s{1,9}(\S.{0,80})",
    re.ASCII,
)
"""Line of nccl-tests with the host and the GPU of a rank: "#  Rank  0 Pid  895 on  vm device  0 [0x18] NVIDIA H200"."""
_PROCESSOR = re.compile(r"\s{0,9}Model name:\s{2,99}(\S.{0,99}?)\s{0,9}")
"""Line of lscpu with the processor. It needs two spaces: other text may have one, such as the name of an AI model."""
_MIG_MODES: Mapping[str, Literal["enabled", "disabled"] | None] = {
    "Enabled": "enabled",
    "Disabled": "disabled",
    "N/A": None,
}
"""MIG mode by nvidia-smi's word. None: the GPU does not support MIG."""


@dataclass
class SavedDetails:
    """Properties of a machine, and of its GPUs by their index.

    A set has all values that the text gives for one property. A set with more than one value is a contradiction.
    """

    names: dict[int, set[str]] = field(default_factory=dict)
    bus_ids: dict[int, set[str]] = field(default_factory=dict)
    pcie: dict[int, set[tuple[int | None, int | None]]] = field(default_factory=dict)
    """Maximum generation and width."""
    links: dict[int, dict[int, set[float | None]]] = field(default_factory=dict)
    """Line rates in GB/s by GPU and link. A rate of None means that the link is down."""
    memory_bytes: dict[int, set[int]] = field(default_factory=dict)
    mig_modes: dict[int, set[str]] = field(default_factory=dict)
    """Keys of _MIG_MODES."""
    driver_versions: set[str] = field(default_factory=set)
    cuda_versions: set[str] = field(default_factory=set)
    hosts: dict[str, set[str]] = field(default_factory=dict)
    """Names of the GPUs by host name."""
    processors: set[str] = field(default_factory=set)


def read_details(lines: Sequence[str]) -> SavedDetails:
    """Collects the details in all lines."""
    details = SavedDetails()
    _read_summary(lines, details)
    _read_links(lines, details)
    _read_query(lines, details)
    for line in lines:
        if match := _RANK.search(line):
            details.hosts.setdefault(plain(match[1]), set()).add(plain(match[2]).strip())
        elif match := _PROCESSOR.fullmatch(line):
            details.processors.add(plain(match[1]))
    return details


def _read_summary(lines: Sequence[str], details: SavedDetails) -> None:
    """Reads the summary that `nvidia-smi` prints without options."""
    gpu: int | None = None
    for line in filter(None, map(str.strip, lines)):
        if match := _SUMMARY_DRIVER.fullmatch(line):
            details.driver_versions.add(match[1])
            details.cuda_versions.update(filter(None, [match[2]]))
        elif match := _SUMMARY_GPU.fullmatch(line):
            gpu = int(match[1])
            details.names.setdefault(gpu, set()).add(plain(match[2]))
            details.bus_ids.setdefault(gpu, set()).add(bus_id_of(match[3]) or match[3])
        elif gpu is not None and (match := _SUMMARY_MEMORY.fullmatch(line)):
            details.memory_bytes.setdefault(gpu, set()).add(int(match[1]) * _MIB)
        elif gpu is not None and (match := _SUMMARY_MIG.fullmatch(line)):
            details.mig_modes.setdefault(gpu, set()).add(match[1])
        else:
            gpu = None


def _read_links(lines: Sequence[str], details: SavedDetails) -> None:
    """Reads the output of `nvidia-smi nvlink -s`."""
    gpu: int | None = None
    for line in lines:
        if match := _NVLINK_GPU.fullmatch(line):
            gpu = int(match[1])
            details.names.setdefault(gpu, set()).add(plain(match[2]))
        elif gpu is not None and (match := _NVLINK.fullmatch(line)):
            rate_gbps = float(match[2]) if match[2] else None
            details.links.setdefault(gpu, {}).setdefault(int(match[1]), set()).add(rate_gbps)
        elif line.strip():
            gpu = None


def _read_query(lines: Sequence[str], details: SavedDetails) -> None:
    """Reads the output of `nvidia-smi --query-gpu=index,name,... --format=csv`."""
    for index, row in _query_rows(lines):
        if name := row.get("name"):
            details.names.setdefault(index, set()).add(plain(name))
        if bus_id := bus_id_of(row.get("pci.bus_id", "")):
            details.bus_ids.setdefault(index, set()).add(bus_id)
        generation = _parse_one_or_two_digits(row.get("pcie.link.gen.max"))
        width = _parse_one_or_two_digits(row.get("pcie.link.width.max"))
        if generation or width:
            details.pcie.setdefault(index, set()).add((generation, width))
        if memory := re.fullmatch(r"(\d{1,9})(?: MiB)?", row.get("memory.total", ""), re.ASCII):
            details.memory_bytes.setdefault(index, set()).add(int(memory[1]) * _MIB)
        if (mode := row.get("mig.mode.current", "").strip("[]")) in _MIG_MODES:
            details.mig_modes.setdefault(index, set()).add(mode)
        if re.fullmatch(r"\d[\d.]{0,19}", version := row.get("driver_version", ""), re.ASCII):
            details.driver_versions.add(version)


def _query_rows(lines: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields the index of a GPU and its values by column."""
    columns: list[str] = []
    for line in lines:
        cells = [cell.strip() for cell in line.split(",")]
        if cells[0] == "index" and len(cells) > 1:
            columns = [cell.split(" ")[0] for cell in cells]  # without the unit: memory.total [MiB]
        elif columns and len(cells) == len(columns) and re.fullmatch(r"\d{1,4}", cells[0], re.ASCII):
            yield int(cells[0]), dict(zip(columns, cells, strict=True))
        else:
            columns = []


def _parse_one_or_two_digits(text: str | None) -> int | None:
    """Returns a number from 1 to 99. None for any other text."""
    return int(text) if text and re.fullmatch(r"[1-9]\d?", text, re.ASCII) else None


def index_of(gpu: Gpu) -> int:
    """Returns the GPU's index in `SavedDetails`."""
    return int(gpu.label.removeprefix("GPU"))


def with_details(topology: Topology, details: SavedDetails) -> Topology:
    """Returns the topology with the details that its matrix does not have, and with notes about contradictions."""
    gpus, notes = [], list(topology.notes)
    for gpu in topology.gpus or ():
        gpus.append(_gpu_with_details(gpu, details))
        notes += _contradictions(gpu, details)
    machine_properties = {
        "driver version": details.driver_versions,
        "CUDA version": details.cuda_versions,
        "processor": details.processors,
    }
    notes += [f"the text gives more than one {name}" for name, values in machine_properties.items() if len(values) > 1]
    driver = Driver(version=_single_value(details.driver_versions), cuda_version=_single_value(details.cuda_versions))
    host = Host(name=_host_name(details, gpus), processor=_single_value(details.processors))
    if details.hosts and host.name is None:
        hosts_text = names_text(list(details.hosts), _MAX_HOSTS)
        notes.append(f"the host of the matrix is uncertain; the text names {hosts_text}")
    return replace(
        topology,
        host=None if host == Host() else host,
        driver=None if driver == Driver() else driver,
        gpus=tuple(gpus),
        notes=tuple(notes),
    )


def _gpu_with_details(gpu: Gpu, details: SavedDetails) -> Gpu:
    index = index_of(gpu)
    generation, width = _single_value_of(details.pcie, index) or (None, None)
    pcie = Pcie(max_generation=generation, max_width=width, max_gbps=pcie_gbps(generation, width))
    mig_word = _single_value_of(details.mig_modes, index)
    return replace(
        gpu,
        name=_single_value_of(details.names, index),
        bus_id=_single_value_of(details.bus_ids, index),
        memory_bytes=_single_value_of(details.memory_bytes, index),
        pcie=None if pcie == Pcie() else pcie,
        nvlinks=_summarize_links(details.links.get(index)),
        mig_mode=_MIG_MODES[mig_word] if mig_word else None,
    )


def _contradictions(gpu: Gpu, details: SavedDetails) -> list[str]:
    """Returns a note for each property of the GPU that has several values in the text."""
    properties: dict[str, Mapping[int, Collection[object]]] = {
        "name": details.names,
        "bus id": details.bus_ids,
        "memory": details.memory_bytes,
        "PCIe link": details.pcie,
        "MIG mode": details.mig_modes,
    }
    index = index_of(gpu)
    contradictory = [name for name, values in properties.items() if len(values.get(index, ())) > 1]
    if any(len(rates) > 1 for rates in details.links.get(index, {}).values()):
        contradictory.append("state of an NVLink")
    return [f"the text gives {gpu.label} more than one {name}" for name in contradictory]


def _host_name(details: SavedDetails, gpus: Sequence[Gpu]) -> str | None:
    """Returns the name of the host that the matrix belongs to. None if the name is uncertain.

    The text must name only one host, and every GPU name that it gives for this host must occur in the matrix.
    """
    host = _single_value(set(details.hosts))
    if host is None:
        return None
    matrix_gpu_names = {gpu.name for gpu in gpus}
    return host if details.hosts[host] <= matrix_gpu_names else None


def _single_value_of(values: dict[int, set[T]], index: int) -> T | None:
    """Returns the GPU's value. None if the text has no value or contradictory values."""
    return _single_value(values.get(index, set()))


def _single_value(values: set[T]) -> T | None:
    return next(iter(values)) if len(values) == 1 else None


def _summarize_links(links: dict[int, set[float | None]] | None) -> NvLinks | None:
    """Returns the number and the rate of the active links. None if the text has no links or contradictory states.

    Links may have different rates. This is no contradiction, but `line_gbps` is then None.
    """
    if links is None or any(len(rates) > 1 for rates in links.values()):
        return None
    active_rates = [rate for rates in links.values() for rate in rates if rate is not None]
    return NvLinks(active=len(active_rates), line_gbps=_single_value(set(active_rates)))
