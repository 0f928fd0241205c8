"""NVLinks between two GPUs, direct or through switches, derived from both ends of the links."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from busbw.topology.types import Access, Gpu
from busbw.units import count_text


class LinkEnd(Struct, kw_only=True, frozen=True):
    """One active NVLink, as reported by its GPU."""

    version: str | None = None
    to: str | None = None
    """'GPU' or 'switch'; None if unknown."""
    bus_id: str | None = None
    """Bus id of the remote device; None if unknown."""
    line_gbps: float | None = None


def nvlinks_between(
    one: Gpu,
    ends: Sequence[LinkEnd],
    other: Gpu,
    other_ends: Sequence[LinkEnd],
    access: Access | None,
    gpus: Sequence[Gpu],
) -> int | None:
    """Returns the number of links between two GPUs that both ends support; 0 for no link, None if unknown.

    Args:
        one: First GPU.
        ends: Active links of the first GPU.
        other: Second GPU.
        other_ends: Active links of the second GPU.
        access: Driver status of peer access over NVLink.
        gpus: All GPUs of the machine.
    """
    straight = max(_count_links_to(ends, other.bus_id), _count_links_to(other_ends, one.bus_id))
    if straight:
        return straight
    ids = {gpu.bus_id for gpu in gpus} - {None}
    through, other_through = _switch_links(ends, ids), _switch_links(other_ends, ids)
    fewer = min(len(through), len(other_through))
    if not fewer:
        return 0
    shared = _switches(through) & _switches(other_through)
    if shared:
        return min(sum(end.bus_id in shared for end in through), sum(end.bus_id in shared for end in other_through))
    if access == "ok":  # the driver does not identify the switches, but reports access over NVLink
        return fewer
    known = all(end.to == "switch" and end.bus_id for end in (*through, *other_through))
    return 0 if known or access is not None else None


def _count_links_to(ends: Sequence[LinkEnd], bus_id: str | None) -> int:
    return sum(end.bus_id == bus_id for end in ends) if bus_id else 0


def _switch_links(ends: Sequence[LinkEnd], gpus: set[str | None]) -> list[LinkEnd]:
    """Returns the links to a switch, and links with an unknown remote device that is not one of the GPUs."""
    return [end for end in ends if end.to == "switch" or (end.to is None and end.bus_id not in gpus)]


def _switches(ends: Sequence[LinkEnd]) -> set[str | None]:
    return {end.bus_id for end in ends if end.to == "switch"} - {None}


def with_remote_devices(gpu: Gpu, ends: Sequence[LinkEnd], gpus: Sequence[Gpu]) -> Gpu:
    """Adds the remote devices of its links to a GPU."""
    if gpu.nvlinks is None or not ends:
        return gpu
    counted = {other.label: _count_links_to(ends, other.bus_id) for other in gpus if other.label != gpu.label}
    to_switch = None if any(end.to is None for end in ends) else sum(end.to == "switch" for end in ends)
    found = {label: links for label, links in counted.items() if links}
    return replace(gpu, nvlinks=replace(gpu.nvlinks, to_switch=to_switch, to_gpus=found))


def unknown_links_note(pairs: int) -> str:
    """Returns the note about pairs for which `nvlinks_between` returned None."""
    return (
        "NVLinks are up, but the driver does not report their remote devices: the NVLinks of "
        f"{count_text(pairs, 'pair')} of GPUs are unknown"
    )
