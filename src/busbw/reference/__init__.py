"""ADD A REFERENCE FIGURE HERE: published measurements, each with where it comes from. Data, no code: *.toml."""

from importlib import resources
from typing import Annotated

import msgspec
from msgspec import Meta, Struct


class Point(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One published figure."""

    size_bytes: Annotated[int, Meta(gt=0)]
    time_us: Annotated[float, Meta(gt=0)]
    busbw_gbps: Annotated[float, Meta(ge=0)]


class Sweep(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Figures of one configuration over sizes."""

    collective: str
    dtype: str
    placement: str
    command: str
    points: Annotated[list[Point], Meta(min_length=1)]


class Reference(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What was measured, on what, by whom, when and how."""

    title: str
    gpu: str
    ranks: Annotated[int, Meta(ge=1)]
    nodes: Annotated[int, Meta(ge=1)]
    links: str
    library: str
    source: str
    date: Annotated[str, Meta(pattern=r"^\d{4}(-\d{2}){0,2}$")]
    method: str
    sweeps: Annotated[list[Sweep], Meta(min_length=1)]


def references() -> dict[str, Reference]:
    """Every reference, by the name of its file."""
    folder = resources.files(__package__)
    files = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return {
        name.removesuffix(".toml"): msgspec.toml.decode((folder / name).read_bytes(), type=Reference) for name in files
    }
