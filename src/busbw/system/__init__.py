"""ADD A SYSTEM HERE: hardware of node types, for the prediction of bandwidths in busbw.expect.

A new system is a *.toml file in this folder.

`find` returns the description for a name or a file, `find_in_text` that for the device that a log names. The module
`detect` inspects this machine.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from busbw.support.catalog import Catalog

SYSTEM_VARIABLE = "BUSBW_SYSTEM"
"""Environment variable with the name of a run's system. Records contain it."""
Generation = Literal["volta", "ampere", "hopper", "blackwell", "cdna", "host"]
"""Architecture of the GPUs. It determines NCCL's protocols and their efficiency."""


class SourcedValue(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Constant of the expectation, with its source."""

    value: float
    source: Annotated[str, Meta(min_length=1)]


class Fabric(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Links of one type from one rank. The ranks that these links reach are the domain of the rank."""

    kind: Literal["NVLink", "Infinity Fabric", "PCIe", "host memory"]
    layout: Literal["switch", "mesh", "shared"]
    """switch: all links reach every rank; mesh: a fixed number of links to each rank; shared: one bus for all ranks."""
    most_ranks: Annotated[int, Meta(ge=2)]
    """Maximum number of ranks in the domain."""
    links: Annotated[int, Meta(ge=1)]
    """Number of links of one rank. In a mesh: links to one other rank."""
    link_gbps: SourcedValue
    """Rate of one link for a collective's data in GB/s, one way. It is lower than the specification."""
    spec_gbps: SourcedValue
    """Sum of all links of one rank by the vendor's specification in GB/s, one way."""


class Nvls(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Reduction in the switch (NVLink SHARP)."""

    from_ranks: SourcedValue
    """Minimum number of ranks. With fewer ranks the library uses a ring."""
    efficiency: SourcedValue
    """Share of the links' rate during a reduction in the switch."""


class Nics(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Network of one node."""

    count: Annotated[int, Meta(ge=1)]
    """Number of NICs per node."""
    gbit: Annotated[float, Meta(gt=0)]
    """Rate of each NIC in Gb/s, one way."""
    latency_us: SourcedValue | None = None
    """Latency that the network plug-in adds to each step. Null for InfiniBand and RoCE: NCCL's table includes it."""
    sharp: bool = False
    """True if the switches of the network reduce (InfiniBand SHARP)."""
    source: Annotated[str, Meta(min_length=1)]
    """Public address of the figures, or their origin."""

    @property
    def text(self) -> str:
        """Text such as "8 x 400 Gb/s"."""
        return f"{self.count} x {self.gbit:g} Gb/s"

    def with_count_and_rate_of(self, other: "Nics") -> "Nics":
        """Returns these NICs with the count, rate and source of `other`. The latency and `sharp` stay."""
        return msgspec.structs.replace(self, count=other.count, gbit=other.gbit, source=other.source)


class System(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Hardware of one type of node."""

    title: str
    generation: Generation
    devices: list[str]
    """Texts that identify the system in a device's name or a log, such as "H100 NVL". Empty if no text does."""
    ranks_per_node: Annotated[int, Meta(ge=1)]
    """Number of GPUs per node."""
    fabrics: list[Fabric] = []
    """Fabrics, fastest first. The first that connects all ranks of a node is used. Empty if unknown."""
    nvls: Nvls | None = None
    """Reduction in the NVSwitch. None if the node has none."""
    nics: Nics | None = None
    """Network of a node. None if unknown."""
    notes: list[str] = []
    name: str = ""
    """Name of the file, set when the file is read."""

    @property
    def is_joined_by_nvlink(self) -> bool:
        """True if NVLink connects all GPUs of a node. A second fabric (PCIe) means that NVLink joins only some GPUs."""
        return [fabric.kind for fabric in self.fabrics] == ["NVLink"]

    @property
    def rack_ranks(self) -> int | None:
        """Number of ranks that NVLink connects beyond the node (NVL72); None if NVLink ends at the node."""
        fastest = self.fabrics[0] if self.fabrics else None
        if fastest is None or fastest.kind != "NVLink" or fastest.most_ranks <= self.ranks_per_node:
            return None
        return fastest.most_ranks


_CATALOG = Catalog(
    __name__,
    System,
    kind="system",
    remedy_malformed="see schema/system.schema.json for the required content",
    remedy_unknown=lambda known: f"a .toml file or one of {', '.join(known)}",
    finish=lambda system, name: msgspec.structs.replace(system, name=name),
)


def systems() -> dict[str, System]:
    """Returns every description in the package by the name of its file."""
    return _CATALOG.all


def find(name: str, *, other_values: Sequence[str] = ()) -> System:
    """Returns the description with a name, or the description in the file at a path; see `Catalog.find`.

    Raises:
        UsageError: The description does not exist or its file is invalid.
    """
    return _CATALOG.find(name, other_values=other_values)


@lru_cache(maxsize=256)
def find_in_text(text: str) -> System | None:
    """Returns the system with the device named in a text, such as a device list or a table's title; None if unknown.

    The longest device name decides: a text with "H100 NVL" also contains "H100".
    """
    matches = [
        (len(device), system)
        for system in systems().values()
        for device in system.devices
        if re.search(rf"(?<![a-z0-9]){re.escape(device.lower())}(?![a-z0-9])", text.lower())
    ]
    return max(matches, key=lambda match: match[0])[1] if matches else None


_NIC_COUNT_AND_RATE = re.compile(r"(\d{1,3})\s*x\s*(\d{2,4})\s*(?:g(?:b(?:ps|it/s|/s)?|bit)?)?(?![\w])", re.IGNORECASE)
"""Number and rate of NICs: 8x400, 8x400G, 8 x 400 Gb/s. Not 8x400mm."""
_MIN_NIC_GBIT = 10
"""Minimum rate of a NIC. A smaller number after the x has another meaning."""


def nics_from_text(text: str, source: str) -> Nics | None:
    """Returns the NICs from text such as "8x400" or "8x 400Gbps IB"; None if it has no such part.

    Args:
        text: Any text about a system.
        source: Origin of the text, stored in the result.
    """
    for match in _NIC_COUNT_AND_RATE.finditer(text):
        count, gbit = int(match[1]), float(match[2])
        if gbit >= _MIN_NIC_GBIT:
            return Nics(count=count, gbit=gbit, source=source) if count > 0 else None
    return None
