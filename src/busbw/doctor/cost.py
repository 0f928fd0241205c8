"""Estimates the cost of a finding: the expected busbw of a job with the damage, and without the damage."""

from dataclasses import dataclass
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from busbw.doctor.model import Damage
from busbw.expect import Scenario, expect
from busbw.system import System

_SIZE_BYTES = 8 << 30
"""Large enough for the bandwidth of the plateau."""
_EXAMPLE_NODES = 4
"""Number of nodes that the estimate assumes for damaged NICs if the job is unknown.

With two nodes, a tree crosses the NICs only once, so the damage would cost less than in larger jobs.
"""


class Cost(Struct, kw_only=True, frozen=True):
    """Expected busbw of a job with the damage, and after the fix. Field names are keys of the JSON output."""

    busbw_now_gbps: float
    busbw_fixed_gbps: float
    nodes: int
    """Number of nodes of the job with these bandwidths."""
    basis: Literal["expect"] = "expect"
    """Source of the bandwidths for readers of the JSON output: the model of `busbw expect`, not a measurement."""

    @property
    def lost_share(self) -> float:
        """Share of the bandwidth that is lost, from 0 to 1."""
        return 1.0 - self.busbw_now_gbps / self.busbw_fixed_gbps if self.busbw_fixed_gbps > 0 else 0.0


@dataclass
class Job:
    """Job that loses bandwidth. Another thread may set the fields while the checks run."""

    system: System | None = None
    """System of the nodes. None if unknown."""
    nodes: int = 1
    """Number of nodes. 1 also if the job is unknown."""


def estimate_cost(damage: Damage | None, job: Job) -> Cost | None:
    """Returns the cost of a damage for an all_reduce on all GPUs. None if the model does not cover the system.

    A damage of NICs is estimated for the nodes of the job, or for _EXAMPLE_NODES if the job has one node. Any other
    damage is estimated for one node.
    """
    if damage is None or job.system is None or damage.nic_share <= 0:  # a NIC without a rate: the loss is unknown
        return None
    system, nodes = job.system, 1
    if damage.nic_share < 1:
        nodes = job.nodes if job.nodes > 1 else _EXAMPLE_NODES
    fixed = _plateau_gbps(system, nodes, nvls=True)
    now = _plateau_gbps(_damaged_system(system, damage), nodes, nvls=damage.nvls)
    if fixed is None or now is None:
        return None
    now = min(now, fixed)
    if damage.fabric_cap_gbps is not None:
        now = min(now, damage.fabric_cap_gbps)
    return Cost(busbw_now_gbps=round(now, 1), busbw_fixed_gbps=round(fixed, 1), nodes=nodes)


def _plateau_gbps(system: System, nodes: int, *, nvls: bool) -> float | None:
    scenario = Scenario(
        collective="all_reduce", ranks=nodes * system.ranks_per_node, ranks_per_node=system.ranks_per_node, nvls=nvls
    )
    estimate = expect(scenario, system, [_SIZE_BYTES]).at(_SIZE_BYTES)
    return None if estimate is None else estimate.busbw_gbps.typical


def _damaged_system(system: System, damage: Damage) -> System:
    """Returns the system with the remaining shares of its bandwidths."""
    fabrics = [
        replace(fabric, link_gbps=replace(fabric.link_gbps, value=fabric.link_gbps.value * damage.fabric_share))
        for fabric in system.fabrics
    ]
    nics = system.nics
    if nics is not None:
        nics = replace(nics, gbit=nics.gbit * damage.nic_share)
    return replace(system, fabrics=fabrics, nics=nics)
