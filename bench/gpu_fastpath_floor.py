"""How long a collective takes at the least on a machine, by what its hardware can do: what a time is held against."""

from __future__ import annotations

from typing import NamedTuple

US_PER_BYTE_AT_1_GBPS = 1e-3


class Hardware(NamedTuple):
    """Limits of one kind of GPU and its links, as a probe finds them."""

    gap_us: float  # between two kernels of a CUDA graph that do nothing
    one_way_us: float  # until a peer's kernel sees a flag that was written into its memory
    alone_gbps: float  # written by the SMs of one GPU to a peer, while no other writes
    all_gbps: float  # the same for each, while all write


HARDWARE = {"NVIDIA H200": Hardware(gap_us=0.52, one_way_us=0.75, alone_gbps=369.0, all_gbps=365.0)}
"""By the driver's name. H200: a probe on four with NVLink 4 through NVSwitch (18 links each), CUDA 13.0, driver 580.
Their copy engines write 392 GB/s; kernels do not."""


class Step(NamedTuple):
    """One way to do a collective: how often data has to wait for data on its way, and what the busiest rank sends."""

    trips: int
    of_size: float  # bytes sent to peers, or received if these are more, over the size that programs print
    alone: bool = False  # one rank sends, the others do not


def ways_to(collective: str, ranks: int) -> list[Step]:
    """Those of which no other is shorter at every size; none for a collective that is not known here.

    With all-gather, reduce-scatter and all-to-all each rank sends every peer one of `ranks` shares, at once. An
    all-reduce sends all of it to all peers, or a share to its owner and the sum of a share to all peers. A broadcast's
    root sends all of it to all peers; or it sends each peer another share, and peers pass these on piece by piece while
    more come: then the root sends every byte once, and every peer receives it once.
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
    """The least time on one machine: that of the collective where SMs write to peers and no switch adds up (NVLS)."""

    ranks: int
    hardware: Hardware

    def us(self, collective: str, size_bytes: int) -> float | None:
        """Gap, trips and bytes of the shortest way; None where the collective is not known here."""
        of = self.hardware
        return min(
            (
                of.gap_us
                + step.trips * of.one_way_us
                + step.of_size * size_bytes * US_PER_BYTE_AT_1_GBPS / (of.alone_gbps if step.alone else of.all_gbps)
                for step in ways_to(collective, self.ranks)
            ),
            default=None,
        )

    @property
    def words(self) -> str:
        """What it counts, and what it does not."""
        of = self.hardware
        return (
            f"The floor is the least time of a call in a graph without NVLS. It adds {of.gap_us} us between two "
            f"kernels, {of.one_way_us} us for each trip over NVLink, and the bytes of the busiest rank at "
            f"{of.all_gbps:.0f} GB/s ({of.alone_gbps:.0f} if only a broadcast's root sends). Large all-reduces and "
            "broadcasts make two trips."
        )


def floor_of(machine: str) -> Floor | None:
    """Of a machine as pages name it ("4 x NVIDIA H200"); None where its limits are not known."""
    count, _, device = machine.partition(" x ")
    hardware = HARDWARE.get(device)
    return Floor(int(count), hardware) if hardware and count.isdigit() and int(count) > 1 else None
