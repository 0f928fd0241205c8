"""ADD A REFERENCE FIGURE HERE: published measurements, each with where it comes from. Data, no code: *.toml.

A reference is one configuration from one source. What its source does not say is left out of the file and is None here.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from busbw.catalog import Catalog
from busbw.logs import Placement


class PublishedPoint(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One published figure."""

    size_bytes: (
        Annotated[int, Meta(gt=0, description="As the size column has it; left out: a large message.")] | None
    ) = None
    time_us: Annotated[float, Meta(gt=0, description="Left out where only bandwidth was published.")] | None = None
    busbw_gbps: Annotated[float, Meta(ge=0, description="1e9 bytes/s.")]


class Sweep(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Figures of one configuration over sizes."""

    collective: Annotated[str, Meta(description="'all_reduce', ...")]
    dtype: Annotated[str, Meta(description="'float', ...; left out where the source does not say.")] | None = None
    placement: Annotated[Placement, Meta(description="'unstated' where the source does not say.")] = "unstated"
    variant: Annotated[str, Meta(description="A library, a kernel: what the source compares.")] | None = None
    algorithm: Annotated[str, Meta(description="'Ring', 'NVLS', ... where the source says which.")] | None = None
    kind: Annotated[
        Literal["measured", "floor"],
        Meta(description="A floor is what somebody demands of such a system, and no measurement."),
    ] = "measured"
    command: str | None = None
    points: Annotated[list[PublishedPoint], Meta(min_length=1)]


class Reference(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What was measured, on what, by whom, when and how."""

    title: str
    gpu: str
    system: Annotated[str, Meta(description="The description in src/busbw/system/ that fits it.")] | None = None
    ranks: Annotated[int, Meta(ge=1)]
    nodes: Annotated[int, Meta(ge=1)]
    gpus_per_thread: Annotated[int, Meta(ge=1, description="How many one thread launches in turn (-g).")] = 1
    links: Annotated[str, Meta(description="What joins the ranks of a node.")]
    nics: (
        Annotated[str, Meta(pattern=r"^\d+ x \d+ Gb/s", description="Per node; '8 x 400 Gb/s InfiniBand'.")] | None
    ) = None
    library: Annotated[str, Meta(description="Name and version.")] | None = None
    source: Annotated[str, Meta(description="An address that others can open, or the document's own name.")]
    date: Annotated[str, Meta(pattern=r"^\d{4}(-\d{2}){0,2}$")]
    date_is: Annotated[Literal["measured", "published", "read"], Meta(description="What the date is of.")]
    method: Annotated[str, Meta(description="How it was measured.")]
    notes: list[str] = []
    sweeps: Annotated[list[Sweep], Meta(min_length=1)]


_SHELF = Catalog(
    __name__,
    Reference,
    kind="reference",
    remedy_malformed="CONTRIBUTING.md says what it must hold",
    remedy_unknown=lambda _known: "`busbw refs` lists them; a log, a run or a .toml file will do too",
)


def references() -> dict[str, Reference]:
    """Every reference, by the name of its file."""
    return _SHELF.all


def find(name: str) -> Reference:
    """The reference of that name, or of the TOML file of that path.

    Raises:
        UsageError: There is no such reference.
    """
    return _SHELF.find(name)
