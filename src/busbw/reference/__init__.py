"""ADD A REFERENCE FIGURE HERE: published measurements with their sources. To add one, write a new *.toml file.

A reference is one system from one source, with a sweep for each configuration: collective, type, placement and so on. A
property that the source does not state is omitted from the file and is None here.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from busbw.logs.log import Placement
from busbw.support.catalog import Catalog


class PublishedPoint(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One published figure."""

    size_bytes: (
        Annotated[int, Meta(gt=0, description="Value of the size column; omitted for a large message.")] | None
    ) = None
    time_us: Annotated[float, Meta(gt=0, description="Omitted if only the bandwidth was published.")] | None = None
    busbw_gbps: Annotated[float, Meta(ge=0, description="1e9 bytes/s.")]


class Sweep(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Figures of one configuration over several sizes."""

    collective: Annotated[str, Meta(description="'all_reduce', ...")]
    dtype: Annotated[str, Meta(description="'float', ...; omitted if the source does not state it.")] | None = None
    placement: Annotated[Placement, Meta(description="'unstated' if the source does not state it.")] = "unstated"
    variant: Annotated[str, Meta(description="Variant that the source compares, such as a library.")] | None = None
    algorithm: Annotated[str, Meta(description="'Ring', 'NVLS', ...; omitted if unknown.")] | None = None
    kind: Annotated[
        Literal["measured", "floor"],
        Meta(description="A floor is a required minimum for such a system, not a measurement."),
    ] = "measured"
    command: str | None = None
    points: Annotated[list[PublishedPoint], Meta(min_length=1)]


class Reference(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Published figures with their system, source, date and method."""

    title: str
    gpu: str
    system: Annotated[str, Meta(description="Name of the matching file in src/busbw/system/.")] | None = None
    ranks: Annotated[int, Meta(ge=1)]
    nodes: Annotated[int, Meta(ge=1)]
    gpus_per_thread: Annotated[int, Meta(ge=1, description="GPUs that one thread launches in turn (-g).")] = 1
    links: Annotated[str, Meta(description="Links between the ranks of a node.")]
    nics: (
        Annotated[str, Meta(pattern=r"^\d+ x \d+ Gb/s", description="Per node; '8 x 400 Gb/s InfiniBand'.")] | None
    ) = None
    library: Annotated[str, Meta(description="Name and version.")] | None = None
    source: Annotated[str, Meta(description="Public address, or the title of the document.")]
    date: Annotated[str, Meta(pattern=r"^\d{4}(-\d{2}){0,2}$")]
    date_is: Annotated[Literal["measured", "published", "read"], Meta(description="Event that the date refers to.")]
    method: Annotated[str, Meta(description="Method of the measurement.")]
    notes: list[str] = []
    sweeps: Annotated[list[Sweep], Meta(min_length=1)]


_CATALOG = Catalog(
    __name__,
    Reference,
    kind="reference",
    remedy_malformed="see CONTRIBUTING.md for the required content",
    remedy_unknown=lambda _known: "a name from `busbw refs`, a log, a run or a .toml file",
)


def references() -> dict[str, Reference]:
    """Returns every reference by the name of its file."""
    return _CATALOG.all


def find(name: str) -> Reference:
    """Returns the reference with a name, or that of the TOML file at a path.

    Raises:
        UsageError: The reference does not exist or its file is invalid.
    """
    return _CATALOG.find(name)
