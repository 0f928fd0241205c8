"""Likely causes of a slow run: links or routes with a figure that matches the measured one. Not proofs."""

from collections.abc import Sequence

from busbw.expect import Expectation
from busbw.judge.types import BandVerdict

_NEAR = 0.08
"""Maximum relative difference of two plateaus that count as the same."""

_ALIKE = 1.6
"""Maximum ratio of the figures of several sizes that count as the same."""

_PCIE_GBPS = {"PCIe 3 x16": 12.0, "PCIe 4 x16": 24.0, "PCIe 5 x16": 48.0}


def likely_causes(expectation: Expectation, bands: Sequence[BandVerdict]) -> tuple[str, ...]:
    """Returns one sentence per likely cause, with the figures that suggest it."""
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
        f"high start-up time: {verdict.worst.time_us:.4g} us, typical is {verdict.worst.range_us.typical:.4g} us. "
        "Possible: slow CPU or launches (compare with a CUDA graph, -G 1), ranks far from their NUMA node, no RDMA"
    )


def _middle(verdict: BandVerdict) -> list[str]:
    """Explains slow middle sizes. A constant extra time is start-up time; a proportional one is less bandwidth."""
    slow = [one for one in verdict.judged if one.outcome == "slower"]
    extra = [one.time_us - one.range_us.typical for one in slow]
    ratios = [one.ratio for one in slow]
    if len(slow) < 2:
        return []
    if max(extra) <= _ALIKE * min(extra):
        return [
            f"{min(extra):.3g} to {max(extra):.3g} us more than typical at every slow size: start-up time "
            "(one thread launches many GPUs, -g, or no CUDA graph)"
        ]
    if max(ratios) <= _ALIKE * min(ratios):
        return [f"{min(ratios):.2g} to {max(ratios):.2g} times the typical time at every slow size: low bandwidth"]
    return []


def _plateau(expectation: Expectation, verdict: BandVerdict) -> list[str]:
    measured = max((judged.busbw_gbps or 0.0 for judged in verdict.judged), default=0.0)
    if not measured or expectation.best is None:
        return []
    best = expectation.best
    if measured >= best.limit_gbps * best.efficiency.low:
        suspects = "check chunk sizes, registration or a plug-in's tuner"
        return [f"the maximum of {measured:.4g} GB/s is healthy, but smaller plateau sizes do not reach it: {suspects}"]
    full = best.limit_gbps * best.efficiency.typical
    found = []
    for route in expectation.routes:
        typical = route.limit_gbps * route.efficiency.typical
        if route is not best and abs(measured / typical - 1) <= _NEAR:
            better = f"{best.name} would reach {full:.4g}{_unavailable_reasons(best.name)}"
            found.append(f"{measured:.4g} GB/s is typical of {route.name} ({typical:.4g}); {better}")
    nics = expectation.system.nics
    if expectation.nodes > 1 and nics is not None and best.binding.wire == "NIC":
        for used in range(1, nics.count):
            if nics.count % used == 0 and abs(measured / (full * used / nics.count) - 1) <= _NEAR:
                found.append(
                    f"{measured:.4g} GB/s is typical of {used} of the {nics.count} NICs of a node: check NCCL_IB_HCA"
                )
    if expectation.nodes == 1 and best.binding.wire == "NVLink":
        for name, pcie_gbps in _PCIE_GBPS.items():
            if abs(measured / pcie_gbps - 1) <= 2 * _NEAR:
                found.append(
                    f"{measured:.4g} GB/s is typical of {name}: the GPUs do not use NVLink (nvidia-smi topo -m)"
                )
    if not found:
        found.append(
            f"{measured:.4g} GB/s is {measured / full:.0%} of the typical busbw of {best.name} over "
            f"{best.binding.wire} and matches no other route: check settings (NCCL_DEBUG=INFO), clocks and other load"
        )
    return found


def _unavailable_reasons(best: str) -> str:
    if best.startswith("NVLS"):
        return (
            ": the switch does not reduce (NCCL before 2.17, NCCL_NVLS_ENABLE=0, no fabric manager, a virtual machine)"
        )
    return ""
