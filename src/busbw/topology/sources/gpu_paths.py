"""How two GPUs are joined: by NVLinks that both ends say, straight or through switches, and otherwise by PCIe."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from busbw.topology.types import Access, Gpu
from busbw.units import count_text


class LinkEnd(Struct, kw_only=True, frozen=True):
    """One active NVLink as its GPU sees it."""

    version: str | None = None
    to: str | None = None
    """'GPU', 'switch', or None where the driver does not say."""
    bus_id: str | None = None
    """Of what it leads to; None where the driver does not name it."""
    line_gbps: float | None = None


def nvlinks_between(
    one: Gpu,
    ends: Sequence[LinkEnd],
    other: Gpu,
    other_ends: Sequence[LinkEnd],
    access: Access | None,
    gpus: Sequence[Gpu],
) -> int | None:
    """Links that join two GPUs: as many as both ends have; 0 where none does, None where nobody can tell.

    Args:
        one: A GPU.
        ends: Its active links.
        other: Another one.
        other_ends: And its.
        access: Whether the driver gives them access to each other over NVLink.
        gpus: All of the machine's.
    """
    straight = max(_leading_to(ends, other.bus_id), _leading_to(other_ends, one.bus_id))
    if straight:
        return straight
    ids = {gpu.bus_id for gpu in gpus} - {None}
    through, other_through = _onwards(ends, ids), _onwards(other_ends, ids)
    fewer = min(len(through), len(other_through))
    if not fewer:
        return 0
    shared = _switches(through) & _switches(other_through)
    if shared:
        return min(sum(end.bus_id in shared for end in through), sum(end.bus_id in shared for end in other_through))
    if access == "ok":  # the driver does not name the switches, but says that the links join these two
        return fewer
    known = all(end.to == "switch" and end.bus_id for end in (*through, *other_through))
    return 0 if known or access is not None else None


def _leading_to(ends: Sequence[LinkEnd], bus_id: str | None) -> int:
    return sum(end.bus_id == bus_id for end in ends) if bus_id else 0


def _onwards(ends: Sequence[LinkEnd], gpus: set[str | None]) -> list[LinkEnd]:
    """Links to a switch, and those of which the driver does not say that they lead to one of the GPUs."""
    return [end for end in ends if end.to == "switch" or (end.to is None and end.bus_id not in gpus)]


def _switches(ends: Sequence[LinkEnd]) -> set[str | None]:
    return {end.bus_id for end in ends if end.to == "switch"} - {None}


def with_ends(gpu: Gpu, ends: Sequence[LinkEnd], gpus: Sequence[Gpu]) -> Gpu:
    """The GPU with where its links lead."""
    if gpu.nvlinks is None or not ends:
        return gpu
    counted = {other.label: _leading_to(ends, other.bus_id) for other in gpus if other.label != gpu.label}
    to_switch = None if any(end.to is None for end in ends) else sum(end.to == "switch" for end in ends)
    found = {label: links for label, links in counted.items() if links}
    return replace(gpu, nvlinks=replace(gpu.nvlinks, to_switch=to_switch, to_gpus=found))


def undecided(pairs: int) -> str:
    """The note on pairs for which `nvlinks_between` could not tell."""
    return (
        f"NVLinks are up, but the driver does not say where they lead: how {count_text(pairs, 'pair')} of GPUs "
        "is joined by them is not known"
    )
