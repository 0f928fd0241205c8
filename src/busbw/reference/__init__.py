"""ADD A REFERENCE FIGURE HERE: published measurements, each with where it comes from. Data, no code: *.toml.

A reference is one configuration from one source. What its source does not say is left out of the file and is None here.
"""

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from busbw.errors import UsageError
from busbw.logs import Placement


class Point(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
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
    points: Annotated[list[Point], Meta(min_length=1)]


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


def _decode(text: bytes, name: str) -> Reference:
    try:
        return msgspec.toml.decode(text, type=Reference)
    except msgspec.DecodeError as error:
        raise UsageError(f"{name} is no reference: {error}", remedy="CONTRIBUTING.md says what it must hold") from error


@cache
def references() -> dict[str, Reference]:
    """Every reference, by the name of its file."""
    folder = resources.files(__package__)
    files = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return {name.removesuffix(".toml"): _decode((folder / name).read_bytes(), name) for name in files}


def find(name: str) -> Reference:
    """The reference of that name, or of the TOML file of that path.

    Raises:
        UsageError: There is no such reference.
    """
    known = references()
    if name in known:
        return known[name]
    if name.endswith(".toml"):
        try:
            return _decode(Path(name).read_bytes(), name)
        except OSError as error:
            raise UsageError(f"cannot read {name}: {error.strerror}", remedy="give a file that can be read") from error
    raise UsageError(
        f'there is no reference "{name}"', remedy="`busbw refs` lists them; a log or a .toml file will do too"
    )
