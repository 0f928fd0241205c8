"""Cost of a finding: the time of an all-reduce over all nodes, expected now and without the fault."""

from busbw.expect import Scenario, expect, with_nics
from busbw.find.cluster import Cluster
from busbw.find.findings import Finding
from busbw.system import System

_SIZE_BYTES = 1 << 30
_NETWORK_KINDS = {"gpu", "nic", "numa", "node", "pair", "rail", "leaf", "uplink"}


def cost_sentence(finding: Finding, cluster: Cluster, system: System | None) -> str:
    """Returns the expected times of a 1 GiB all-reduce over all GPUs. Empty if they are not known.

    A ring is as slow as its slowest link, so the prediction reduces the rate of all NICs by the slow-down.
    """
    gpus = int(cluster.node_gpus[0])
    is_uniform = (cluster.node_gpus == gpus).all()
    if finding.dead:
        return "Cost: an all-reduce over all nodes fails or hangs."
    if system is None or system.nics is None or finding.kind not in _NETWORK_KINDS:
        return ""
    if finding.slowdown is None or finding.intermittent or not is_uniform or len(cluster.nodes) < 2:
        return ""
    scenario = Scenario(collective="all_reduce", ranks=len(cluster.gpu_node), ranks_per_node=gpus)
    slow_gbit = system.nics.gbit / finding.slowdown
    slow_system = with_nics(system, system.nics.count, slow_gbit, "rate of the slow part")
    healthy, slow = (expect(scenario, one, [_SIZE_BYTES]).at(_SIZE_BYTES) for one in (system, slow_system))
    if healthy is None or slow is None:
        return ""
    return (
        f"Cost: a 1 GiB all-reduce over {scenario.ranks:,} GPUs is expected to take "
        f"{slow.time_us.typical / 1e3:.1f} ms, and {healthy.time_us.typical / 1e3:.1f} ms without the fault "
        f"({system.name})."
    )
