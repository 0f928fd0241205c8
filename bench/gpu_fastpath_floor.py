"""Lower bound (floor) of a collective's time on a machine, from the limits of its hardware."""

from __future__ import annotations

from typing import NamedTuple

US_PER_BYTE_AT_1_GBPS = 1e-3


class Hardware(NamedTuple):
    """Measured limits of one type of GPU and its links."""

    gap_us: float  # between two empty kernels of a CUDA graph
    one_way_us: float  # from writing a flag into a peer's memory until its kernel reads it
    alone_gbps: float  # rate of writes by the SMs of one GPU to a peer, with no other writer
    all_gbps: float  # the same per GPU, with all GPUs writing


HARDWARE = {"NVIDIA H200": Hardware(gap_us=0.52, one_way_us=0.75, alone_gbps=369.0, all_gbps=365.0)}
"""Limits by the driver's device name. H200: measured on four GPUs with NVLink 4 through NVSwitch (18 links each), CUDA
13.0, driver 580. Copy engines write at 392 GB/s; kernels do not reach that."""


class Step(NamedTuple):
    """One algorithm for a collective: its dependent trips, and the data that the busiest rank sends."""

    trips: int
    of_size: float  # larger of bytes sent and received, as a fraction of the printed size
    alone: bool = False  # only one rank sends


def algorithms_for(collective: str, ranks: int) -> list[Step]:
    """Returns the algorithms that may be the fastest at some size. Empty for an unknown collective.

    In all-gather, reduce-scatter and all-to-all each rank sends every peer one of `ranks` shares at once. An all-reduce
    sends all data to all peers, or each share to its owner and the sum of each share to all peers. The root of a
    broadcast sends all data to all peers, or a different share to each peer, which forwards it in pieces. In the second
    case the root sends every byte once and every peer receives it once.
    """
    one_share = (ranks - 1) / ranks
    if collective in ("all_gather", "reduce_scatter", "alltoall"):
        return [Step(1, one_share)]
    if collective == "all_reduce":
        return [Step(1, ranks - 1), Step(2, 2 * one_share)]
    if collective == "broadcast":
        return [Step(1, ranks - 1, alone=True), Step(2, 1)]
    return []


class Floor(NamedTuple):
    """Minimum time on one machine, for SMs that write to peers, without in-switch reduction (NVLS)."""

    ranks: int
    hardware: Hardware

    def us(self, collective: str, size_bytes: int) -> float | None:
        """Returns gap, trips and transfer time of the fastest algorithm. None for an unknown collective."""
        of = self.hardware
        return min(
            (
                of.gap_us
                + step.trips * of.one_way_us
                + step.of_size * size_bytes * US_PER_BYTE_AT_1_GBPS / (of.alone_gbps if step.alone else of.all_gbps)
                for step in algorithms_for(collective, self.ranks)
            ),
            default=None,
        )

    @property
    def words(self) -> str:
        """Description for the page: what the floor includes and excludes."""
        of = self.hardware
        return (
            f"The floor is the least time of a call in a graph without NVLS. It adds {of.gap_us} us between two "
            f"kernels, {of.one_way_us} us for each trip over NVLink, and the time of the busiest rank's bytes. "
            f"The bytes move at {of.all_gbps:.0f} GB/s, or at {of.alone_gbps:.0f} GB/s if only a broadcast's root "
            "sends. Large all-reduces and broadcasts make two trips."
        )


def floor_of(machine: str) -> Floor | None:
    """Returns the floor for a machine text such as "4 x NVIDIA H200". None if its limits are unknown."""
    count, _, device = machine.partition(" x ")
    hardware = HARDWARE.get(device)
    return Floor(int(count), hardware) if hardware and count.isdigit() and int(count) > 1 else None
