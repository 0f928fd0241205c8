"""Counts the NVLinks between two GPUs, direct or through switches.

NVML lists for each GPU its active links and their remote devices. This module combines the lists of two GPUs.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from busbw.topology.types import Access, Gpu


class LinkEnd(Struct, kw_only=True, frozen=True):
    """One active NVLink, as the GPU at one of its ends reports it."""

    version: str | None = None
    to: str | None = None
    """'GPU' or 'switch'; None if unknown."""
    bus_id: str | None = None
    """Bus id of the remote device; None if unknown."""
    line_gbps: float | None = None
    """Line rate in GB/s per direction; None if unknown."""


def nvlinks_between(
    first: Gpu,
    first_links: Sequence[LinkEnd],
    second: Gpu,
    second_links: Sequence[LinkEnd],
    access: Access | None,
    gpus: Sequence[Gpu],
) -> int | None:
    """Returns the number of links between two GPUs; 0 for no link, None if unknown.

    Through switches, the links of each GPU to the shared switches are counted, and the smaller count is returned.

    Args:
        first: First GPU.
        first_links: Active links of the first GPU.
        second: Second GPU.
        second_links: Active links of the second GPU.
        access: Driver status of peer access over NVLink; None if unknown.
        gpus: All GPUs of the machine.
    """
    # Both GPUs list each direct link, but one of them may not know the remote device.
    direct_links = max(_count_links_to(first_links, second.bus_id), _count_links_to(second_links, first.bus_id))
    if direct_links:
        return direct_links
    gpu_bus_ids = {gpu.bus_id for gpu in gpus} - {None}
    first_to_switch = _switch_links(first_links, gpu_bus_ids)
    second_to_switch = _switch_links(second_links, gpu_bus_ids)
    if not first_to_switch or not second_to_switch:
        return 0
    shared_switches = _switch_bus_ids(first_to_switch) & _switch_bus_ids(second_to_switch)
    if shared_switches:
        first_shared = sum(link.bus_id in shared_switches for link in first_to_switch)
        second_shared = sum(link.bus_id in shared_switches for link in second_to_switch)
        return min(first_shared, second_shared)
    if access == "ok":  # the driver does not identify the switches, but reports access over NVLink
        return min(len(first_to_switch), len(second_to_switch))
    are_switches_known = all(link.to == "switch" and link.bus_id for link in (*first_to_switch, *second_to_switch))
    # The known switches of both GPUs differ, or the driver denies access over NVLink.
    is_unlinked = are_switches_known or access is not None
    return 0 if is_unlinked else None


def _count_links_to(links: Sequence[LinkEnd], bus_id: str | None) -> int:
    return sum(link.bus_id == bus_id for link in links) if bus_id else 0


def _switch_links(links: Sequence[LinkEnd], gpu_bus_ids: set[str | None]) -> list[LinkEnd]:
    """Returns the links to a switch, and links to a device of unknown type that is none of the GPUs."""
    return [link for link in links if link.to == "switch" or (link.to is None and link.bus_id not in gpu_bus_ids)]


def _switch_bus_ids(links: Sequence[LinkEnd]) -> set[str | None]:
    return {link.bus_id for link in links if link.to == "switch"} - {None}


def with_remote_devices(gpu: Gpu, links: Sequence[LinkEnd], gpus: Sequence[Gpu]) -> Gpu:
    """Returns the GPU with the numbers of its links to switches and to each of the other GPUs."""
    if gpu.nvlinks is None or not links:
        return gpu
    counts = {other.label: _count_links_to(links, other.bus_id) for other in gpus if other.label != gpu.label}
    to_gpus = {label: count for label, count in counts.items() if count}
    has_unknown_end = any(link.to is None for link in links)
    to_switch = None if has_unknown_end else sum(link.to == "switch" for link in links)
    return replace(gpu, nvlinks=replace(gpu.nvlinks, to_switch=to_switch, to_gpus=to_gpus))
