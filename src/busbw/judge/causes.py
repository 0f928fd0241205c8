"""What a slow run looks like: a wire or a route whose figure it shows. Likely, never proven."""

from collections.abc import Sequence

from busbw.expect import Expectation
from busbw.judge.types import BandVerdict

_NEAR = 0.08
"""A share within which two plateaus count as the same."""

_ALIKE = 1.6
"""A factor within which the figures of several sizes count as the same."""

_PCIE_GBPS = {"PCIe 3 x16": 12.0, "PCIe 4 x16": 24.0, "PCIe 5 x16": 48.0}


def likely_causes(expectation: Expectation, bands: Sequence[BandVerdict]) -> tuple[str, ...]:
    """Sentences, each with the figures that suggest it."""
    found: list[str] = []
    for verdict in bands:
        if verdict.grade != "SLOW":
            continue
        if verdict.band == "latency":
            found.append(_latency(verdict))
        elif verdict.band == "middle":
            found += _middle(verdict)
        else:
            found += _plateau(expectation, verdict)
    return tuple(found)


def _latency(verdict: BandVerdict) -> str:
    return (
        f"start-up cost: {verdict.worst.time_us:.4g} us where {verdict.worst.range_us.typical:.4g} us is typical: slow "
        "processors or launches (compare with a CUDA graph, -G 1), ranks far from their NUMA node, no RDMA"
    )


def _middle(verdict: BandVerdict) -> list[str]:
    """Time that is missing at every size alike is a cost of starting; time in proportion is a share of a wire."""
    slow = [one for one in verdict.judged if one.outcome == "slower"]
    extra = [one.time_us - one.range_us.typical for one in slow]
    ratios = [one.ratio for one in slow]
    if len(slow) < 2:
        return []
    if max(extra) <= _ALIKE * min(extra):
        return [
            f"{min(extra):.3g} to {max(extra):.3g} us more than typical whatever the size: a cost of starting "
            "(one thread that launches many GPUs, -g, or no CUDA graph)"
        ]
    if max(ratios) <= _ALIKE * min(ratios):
        return [f"{min(ratios):.2g} to {max(ratios):.2g} times the typical time at every slow size: a share of a wire"]
    return []


def _plateau(expectation: Expectation, verdict: BandVerdict) -> list[str]:
    measured = max((judged.busbw_gbps or 0.0 for judged in verdict.judged), default=0.0)
    if not measured or expectation.best is None:
        return []
    best = expectation.best
    if measured >= best.limit_gbps * best.efficiency.low:
        late = "chunk sizes, registration or a plug-in's tuner"
        return [f"its best, {measured:.4g} GB/s, is healthy; smaller sizes of the plateau do not reach it yet: {late}"]
    full = best.limit_gbps * best.efficiency.typical
    found = []
    for route in expectation.routes:
        reaches = route.limit_gbps * route.efficiency.typical
        if route is not best and abs(measured / reaches - 1) <= _NEAR:
            better = f"{best.name} would reach {full:.4g}{_why_not(best.name)}"
            found.append(f"{measured:.4g} GB/s is what {route.name} reaches here ({reaches:.4g}); {better}")
    nics = expectation.system.nics
    if expectation.nodes > 1 and nics is not None and best.binding.wire == "NIC":
        for used in range(1, nics.count):
            if nics.count % used == 0 and abs(measured / (full * used / nics.count) - 1) <= _NEAR:
                found.append(
                    f"{measured:.4g} GB/s is what {used} of the {nics.count} NICs of a node carry: look at NCCL_IB_HCA"
                )
    if expectation.nodes == 1 and best.binding.wire == "NVLink":
        for name, carries in _PCIE_GBPS.items():
            if abs(measured / carries - 1) <= 2 * _NEAR:
                found.append(
                    f"{measured:.4g} GB/s is what {name} carries: the GPUs do not use NVLink (nvidia-smi topo -m)"
                )
    if not found:
        found.append(
            f"{measured:.4g} GB/s is {measured / full:.0%} of what {best.name} reaches over {best.binding.wire} and "
            "the figure of no other route: look at settings (NCCL_DEBUG=INFO), clocks and a shared machine"
        )
    return found


def _why_not(best: str) -> str:
    if best.startswith("NVLS"):
        return (
            ": the switch does not reduce (NCCL before 2.17, NCCL_NVLS_ENABLE=0, no fabric manager, a virtual machine)"
        )
    return ""
