"""Lower bound (floor) of a collective's time on a machine, from the limits of its hardware.

`gpu_fastpath_page` prints the floor next to measured times. A trip is one dependent transfer over NVLink: the receiver
must have the data before it can send.
"""

from __future__ import annotations

from typing import NamedTuple

US_PER_BYTE_AT_1_GBPS = 1e-3


class Hardware(NamedTuple):
    """Measured limits of one type of GPU and its links."""

    gap_us: float  # between two empty kernels of a CUDA graph
    one_way_us: float  # from writing a flag into a peer's memory until its kernel reads it
    one_writer_gbps: float  # rate of writes by the SMs of one GPU to a peer, with no other writer
    all_writers_gbps: float  # the same per GPU, with all GPUs writing


HARDWARE = {"NVIDIA H200": Hardware(gap_us=0.52, one_way_us=0.75, one_writer_gbps=369.0, all_writers_gbps=365.0)}
"""Limits by the driver's device name. H200: measured on four GPUs with NVLink 4 through NVSwitch (18 links each), CUDA
13.0, driver 580. Copy engines write at 392 GB/s; kernels do not reach that."""


class Algorithm(NamedTuple):
    """One algorithm for a collective: its trips, and the data of the busiest rank."""

    trips: int
    bytes_per_size: float  # larger of bytes sent and received by the busiest rank, relative to the printed size
    one_sender: bool = False  # only one rank sends


def algorithms_for(collective: str, ranks: int) -> list[Algorithm]:
    """Returns the algorithms that may be the fastest at some size. Empty for an unknown collective.

    In all-gather, reduce-scatter and all-to-all each rank sends every peer one of `ranks` shares at once. An all-reduce
    sends all data to all peers, or each share to its owner and the sum of each share to all peers. The root of a
    broadcast sends all data to all peers, or a different share to each peer, which forwards it in pieces. In the second
    case the root sends every byte once and every peer receives it once.
    """
    other_ranks_share = (ranks - 1) / ranks  # of the data of one rank, without its own share
    if collective in ("all_gather", "reduce_scatter", "alltoall"):
        return [Algorithm(1, other_ranks_share)]
    if collective == "all_reduce":
        return [Algorithm(1, ranks - 1), Algorithm(2, 2 * other_ranks_share)]
    if collective == "broadcast":
        return [Algorithm(1, ranks - 1, one_sender=True), Algorithm(2, 1)]
    return []


class Floor(NamedTuple):
    """Minimum time on one machine, for SMs that write to peers, without in-switch reduction (NVLS)."""

    ranks: int
    hardware: Hardware

    def us(self, collective: str, size_bytes: int) -> float | None:
        """Returns gap, trips and transfer time of the fastest algorithm. None for an unknown collective."""
        times_us = [self._algorithm_us(algorithm, size_bytes) for algorithm in algorithms_for(collective, self.ranks)]
        return min(times_us, default=None)

    def _algorithm_us(self, algorithm: Algorithm, size_bytes: int) -> float:
        hardware = self.hardware
        rate_gbps = hardware.one_writer_gbps if algorithm.one_sender else hardware.all_writers_gbps
        trips_us = algorithm.trips * hardware.one_way_us
        return hardware.gap_us + trips_us + algorithm.bytes_per_size * size_bytes * US_PER_BYTE_AT_1_GBPS / rate_gbps

    @property
    def description(self) -> str:
        """Sentences for the page: the parts of the floor and their values."""
        hardware = self.hardware
        return (
            f"The floor is the least time of a call in a graph without NVLS. It adds {hardware.gap_us} us between two "
            f"kernels, {hardware.one_way_us} us for each trip over NVLink, and the time of the busiest rank's bytes. "
            f"The bytes move at {hardware.all_writers_gbps:.0f} GB/s, or at {hardware.one_writer_gbps:.0f} GB/s "
            "if only a broadcast's root sends. Large all-reduces and broadcasts make two trips."
        )


def floor_of(machine: str) -> Floor | None:
    """Returns the floor for a machine text such as "4 x NVIDIA H200". None if its limits are unknown."""
    count, _, device = machine.partition(" x ")
    hardware = HARDWARE.get(device)
    if hardware is None or not count.isdigit() or int(count) < 2:
        return None
    return Floor(int(count), hardware)
