"""Likely causes of a SLOW band: links or routes with a typical busbw that matches the measured one. Not proofs.

A route is an algorithm of NCCL with the links it uses, see `expect/routes.py`.
"""

from collections.abc import Sequence

from busbw.expect import Expectation
from busbw.judge.types import BandVerdict

_MAX_PLATEAU_DIFFERENCE = 0.08
"""Maximum relative difference of two plateaus that count as equal. Twice as much for PCIe: its values are coarse."""

_MAX_SIMILAR_RATIO = 1.6
"""Maximum ratio of the largest to the smallest extra time, or time ratio, of several sizes that count as equal."""

_PCIE_BUSBW_GBPS = {"PCIe 3 x16": 12.0, "PCIe 4 x16": 24.0, "PCIe 5 x16": 48.0}
"""Typical busbw over one x16 slot of each PCIe generation."""


def likely_causes(expectation: Expectation, bands: Sequence[BandVerdict]) -> tuple[str, ...]:
    """Returns one sentence per likely cause, with the figures that suggest it."""
    causes: list[str] = []
    for verdict in bands:
        if verdict.grade != "SLOW":
            continue
        if verdict.band == "latency":
            causes.append(_explain_latency(verdict))
        elif verdict.band == "middle":
            causes += _explain_middle(verdict)
        else:
            causes += _explain_plateau(expectation, verdict)
    return tuple(causes)


def _explain_latency(verdict: BandVerdict) -> str:
    return (
        f"high start-up time: {verdict.worst.time_us:.4g} us, typical is {verdict.worst.range_us.typical:.4g} us. "
        "Possible: slow CPU or launches (compare with a CUDA graph, -G 1), ranks far from their NUMA node, no RDMA"
    )


def _explain_middle(verdict: BandVerdict) -> list[str]:
    """Explains slow middle sizes: a constant extra time is start-up time, a proportional one is low bandwidth."""
    slow_figures = [figure for figure in verdict.judged if figure.outcome == "slower"]
    extra_us = [figure.time_us - figure.range_us.typical for figure in slow_figures]
    ratios = [figure.ratio for figure in slow_figures]
    if len(slow_figures) < 2:
        return []
    if max(extra_us) <= _MAX_SIMILAR_RATIO * min(extra_us):
        return [
            f"{min(extra_us):.3g} to {max(extra_us):.3g} us more than typical at every slow size: start-up time "
            "(one thread launches many GPUs, -g, or no CUDA graph)"
        ]
    if max(ratios) <= _MAX_SIMILAR_RATIO * min(ratios):
        return [f"{min(ratios):.2g} to {max(ratios):.2g} times the typical time at every slow size: low bandwidth"]
    return []


def _explain_plateau(expectation: Expectation, verdict: BandVerdict) -> list[str]:
    """Compares the maximum busbw with that of slower routes, of fewer NICs and of PCIe."""
    measured_gbps = max((figure.busbw_gbps or 0.0 for figure in verdict.judged), default=0.0)
    if not measured_gbps or expectation.best is None:
        return []
    best = expectation.best
    if measured_gbps >= best.limit_gbps * best.efficiency.low:
        remedy = "check chunk sizes, registration or a plug-in's tuner"
        return [
            f"the maximum of {measured_gbps:.4g} GB/s is healthy, but smaller plateau sizes do not reach it: {remedy}"
        ]
    best_gbps = best.limit_gbps * best.efficiency.typical
    causes = []
    for route in expectation.routes:
        typical_gbps = route.limit_gbps * route.efficiency.typical
        if route is not best and abs(measured_gbps / typical_gbps - 1) <= _MAX_PLATEAU_DIFFERENCE:
            best_text = f"{best.name} would reach {best_gbps:.4g}{_unavailable_route_text(expectation, best.name)}"
            causes.append(f"{measured_gbps:.4g} GB/s is typical of {route.name} ({typical_gbps:.4g}); {best_text}")
    nics = expectation.system.nics
    if expectation.nodes > 1 and nics is not None and best.binding.wire == "NIC":
        for used_nics in range(1, nics.count):
            gbps = best_gbps * used_nics / nics.count
            if nics.count % used_nics == 0 and abs(measured_gbps / gbps - 1) <= _MAX_PLATEAU_DIFFERENCE:
                used_text = f"{used_nics} of the {nics.count} NICs of a node"
                causes.append(f"{measured_gbps:.4g} GB/s is typical of {used_text}: check NCCL_IB_HCA")
    if expectation.nodes == 1 and best.binding.wire == "NVLink":
        for name, pcie_gbps in _PCIE_BUSBW_GBPS.items():
            if abs(measured_gbps / pcie_gbps - 1) <= 2 * _MAX_PLATEAU_DIFFERENCE:
                causes.append(
                    f"{measured_gbps:.4g} GB/s is typical of {name}: the GPUs do not use NVLink (nvidia-smi topo -m)"
                )
    if not causes:
        causes.append(
            f"{measured_gbps:.4g} GB/s is {measured_gbps / best_gbps:.0%} of the typical busbw of {best.name} over "
            f"{best.binding.wire} and matches no other route: check settings (NCCL_DEBUG=INFO), clocks and other load"
        )
    return causes


def _unavailable_route_text(expectation: Expectation, route_name: str) -> str:
    """Text of what may prevent the use of a route. Empty if nothing is known."""
    if route_name == "CollNet" or (route_name == "NVLS" and expectation.nodes > 1):
        return ": the network does not reduce (NCCL_COLLNET_ENABLE is not 1, no SHARP plug-in)"
    if route_name.startswith("NVLS"):
        return (
            ": the switch does not reduce (NCCL before 2.17, NCCL_NVLS_ENABLE=0, no fabric manager, a virtual machine)"
        )
    return ""
