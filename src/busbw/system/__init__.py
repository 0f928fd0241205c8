"""ADD A SYSTEM HERE: what a machine's wires can carry. Data, no code: *.toml, each constant with its source.

`find` gives the description for a name, a file or the words of a log; `detect` looks at this machine.
"""

import re
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from busbw.catalog import Catalog

Generation = Literal["volta", "ampere", "hopper", "blackwell", "cdna", "host"]
"""Decides which of NCCL's protocols there are and what they reach."""


class SourcedValue(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A figure that the expectation is made from."""

    value: float
    source: Annotated[str, Meta(min_length=1)]


class Fabric(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What joins the ranks of one domain: the links of one rank."""

    kind: Literal["NVLink", "Infinity Fabric", "PCIe", "host memory"]
    layout: Literal["switch", "mesh", "shared"]
    """switch: all links lead to every rank; mesh: a fixed number leads to each; shared: one bus for all."""
    most_ranks: Annotated[int, Meta(ge=2)]
    """The ranks that it joins at most."""
    links: Annotated[int, Meta(ge=1)]
    """Of one rank; in a mesh those to one other rank."""
    link_gbps: SourcedValue
    """What a collective's data get through one link, one way."""
    spec_gbps: SourcedValue
    """What the maker says of all links of one rank together, one way."""


class Nvls(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Reduction in the switch (NVLink SHARP)."""

    from_ranks: SourcedValue
    """The library prefers its ring with fewer."""
    efficiency: SourcedValue
    """Of the links' rate, while the switch reduces."""


class Nics(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The network of one node."""

    count: Annotated[int, Meta(ge=1)]
    gbit: Annotated[float, Meta(gt=0)]
    """Of each, one way."""
    latency_us: SourcedValue | None = None
    """What the network's plug-in adds to each step; null: InfiniBand or RoCE, which NCCL counts in its own table."""
    source: Annotated[str, Meta(min_length=1)]

    @property
    def text(self) -> str:
        """As people write it: 8 x 400 Gb/s."""
        return f"{self.count} x {self.gbit:g} Gb/s"


class System(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A kind of node."""

    title: str
    generation: Generation
    devices: list[str]
    """Words that the name of its device has, as logs write it; empty where the name alone does not decide."""
    ranks_per_node: Annotated[int, Meta(ge=1)]
    fabrics: list[Fabric] = []
    """From the fastest; the first that joins all ranks of a node counts. Empty: nothing is known."""
    nvls: Nvls | None = None
    nics: Nics | None = None
    notes: list[str] = []
    name: str = ""
    """Of the file; given when it is read."""

    @property
    def rack_ranks(self) -> int | None:
        """How many ranks NVLink joins where it leaves the node (NVL72); None where it does not."""
        first = self.fabrics[0] if self.fabrics else None
        leaves = first is not None and first.kind == "NVLink" and first.most_ranks > self.ranks_per_node
        return first.most_ranks if first is not None and leaves else None


_SHELF = Catalog(
    __name__,
    System,
    kind="system",
    remedy_malformed="compare it with one that `busbw expect --system NAME` knows",
    remedy_unknown=lambda known: f"give auto, a .toml file or one of {', '.join(known)}",
    finish=lambda system, name: msgspec.structs.replace(system, name=name),
)


def systems() -> dict[str, System]:
    """Every description that comes with the program, by the name of its file."""
    return _SHELF.all


def find(name: str) -> System:
    """The description of that name, or of the file of that path.

    Raises:
        UsageError: There is no such description.
    """
    return _SHELF.find(name)


@lru_cache(maxsize=256)
def find_in_text(text: str) -> System | None:
    """The system whose device the words name: the name in a device list, the title of a table."""
    found = [
        (len(device), system)
        for system in systems().values()
        for device in system.devices
        if re.search(rf"(?<![a-z0-9]){re.escape(device.lower())}(?![a-z0-9])", text.lower())
    ]
    return max(found, key=lambda pair: pair[0])[1] if found else None


_NICS = re.compile(r"(\d{1,3})\s*x\s*(\d{2,4})\s*(?:g(?:b(?:ps|it/s|/s)?|bit)?)?(?![\w])", re.IGNORECASE)


def nics_from_text(text: str, source: str) -> Nics | None:
    """NICs as people write them: "8x400", "8x 400Gbps IB". None where nothing of that form is there."""
    found = [match for match in _NICS.finditer(text) if float(match[2]) >= 10]
    if not found or int(found[0][1]) < 1:
        return None
    return Nics(count=int(found[0][1]), gbit=float(found[0][2]), source=source)
