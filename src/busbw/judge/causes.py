"""Finds the likely causes of SLOW bands, those with the strongest evidence first. Each cause names its confirmation.

`_Evidence` has the order of the evidence. A route is an algorithm of NCCL with the links that it uses, see
`expect/routes.py`.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from busbw.expect import Expectation, Route
from busbw.judge.types import BandVerdict, Grade
from busbw.logs.log import Table
from busbw.units import number_text

_MAX_PLATEAU_DIFFERENCE = 0.08
"""Maximum relative difference of two plateaus that count as equal."""
_MAX_PCIE_DIFFERENCE = 2 * _MAX_PLATEAU_DIFFERENCE
"""Maximum relative difference from a value of `_PCIE_BUSBW_GBPS` that counts as equal. These values are coarse."""

_MAX_SIMILAR_RATIO = 1.6
"""Values of several sizes count as equal if the largest is at most this many times the smallest."""

_PCIE_BUSBW_GBPS = {"PCIe 3 x16": 12.0, "PCIe 4 x16": 24.0, "PCIe 5 x16": 48.0}
"""Typical busbw over one x16 slot of each PCIe generation."""

_MODELED_LIBRARIES = ("NCCL", "RCCL")
"""Libraries with the algorithms that the expectation models, by the first word of their name."""

_SLOWING_VARIABLES = {
    "NCCL_P2P_DISABLE": "keeps data off NVLink",
    "NCCL_SHM_DISABLE": "keeps data off shared memory",
    "NCCL_IB_DISABLE": "replaces RDMA by TCP sockets",
    "NCCL_NET_GDR_LEVEL": "limits GPUDirect RDMA",
    "NCCL_PROTO": "limits the protocols",
    "NCCL_MAX_NCHANNELS": "limits the channels",
    "NCCL_MAX_CTAS": "limits the channels",
    "NCCL_BUFFSIZE": "changes the size of chunks",
}
"""Variables that can lower the speed and that the expectation does not model, with their effects."""


class _Evidence(IntEnum):
    """Kind of evidence for a cause, the strongest first."""

    LOG_FACT = 0
    """The log states it."""
    MATCHING_FIGURE = 1
    """The measured figure is typical of this cause."""
    PATTERN = 2
    """The times of several sizes have the form that this cause gives them."""
    NONE = 3
    """Nothing selects one of the usual causes, so all of them are named."""


class _Cause(NamedTuple):
    evidence: _Evidence
    slowdown: float
    """Largest ratio of measured to typical time in the band. Of equal evidence, the larger slowdown comes first."""
    text: str
    """Figures and the cause that they suggest."""
    confirmation: str
    """Step that would confirm the cause, as an imperative."""


def likely_causes(
    table: Table, expectation: Expectation, bands: Sequence[BandVerdict], *, by_expectation: bool
) -> tuple[str, ...]:
    """Returns the text of each likely cause: the figures that suggest it, and what would confirm it.

    Args:
        table: Table of the run.
        expectation: Expectation for the run, with its routes.
        bands: Verdicts on the bands.
        by_expectation: True if the bands are judged by this expectation, false for a reference.
    """
    slow_bands = [verdict for verdict in bands if verdict.grade == "SLOW"]
    if not slow_bands:
        return ()
    plateau_grade = next((band.grade for band in bands if band.band == "plateau"), None)
    causes = list(_stated_causes(table, slow_bands)) if by_expectation else []
    for verdict in slow_bands:
        if verdict.band == "latency":
            causes.append(_explain_latency(table, expectation, verdict))
        elif verdict.band == "middle":
            causes += _explain_middle(verdict, plateau_grade)
        else:
            causes += _explain_plateau(expectation, verdict)
    causes.sort(key=lambda cause: (cause.evidence, -cause.slowdown))
    return tuple(f"{cause.text}. To confirm: {cause.confirmation}" for cause in causes)


def _max_slowdown(verdict: BandVerdict) -> float:
    """Returns the largest ratio of measured to typical time."""
    return max(figure.ratio for figure in verdict.judged)


def _stated_causes(table: Table, slow_bands: Sequence[BandVerdict]) -> Iterator[_Cause]:
    """Yields the facts of the log that the expectation does not model."""
    slowdown = max(map(_max_slowdown, slow_bands))
    if table.library and not table.library.startswith(_MODELED_LIBRARIES):
        yield _Cause(
            _Evidence.LOG_FACT,
            slowdown,
            f"the run used {table.library}, and the range is that of NCCL's algorithms",
            "measure the same with NCCL (without LD_PRELOAD)",
        )
    for name, effect in _SLOWING_VARIABLES.items():
        value = table.environment.get(name, "").strip()
        disables_nothing = name.endswith("_DISABLE") and value == "0"
        if value and not disables_nothing:
            yield _Cause(_Evidence.LOG_FACT, slowdown, f"the run set {name}={value}, which {effect}", f"unset {name}")


def _explain_latency(table: Table, expectation: Expectation, verdict: BandVerdict) -> _Cause:
    figures = f"{number_text(verdict.worst.time_us)} us, typical is {number_text(verdict.worst.range_us.typical)} us"
    network_step = ", and look for GDRDMA in the output of NCCL_DEBUG=INFO" if expectation.nodes > 1 else ""
    if table.is_in_graph:
        cause = "start of the graph, slow clocks or ranks far from their GPUs"
        confirmation = f"put more operations into the graph (-G 50), as its start is paid once{network_step}"
    else:
        cause = "slow CPU or launches, or ranks far from their GPUs"
        confirmation = f"measure in a CUDA graph (-G 50), which removes launches{network_step}"
    return _Cause(_Evidence.NONE, _max_slowdown(verdict), f"high start-up time: {figures}: {cause}", confirmation)


_LOW_BANDWIDTH_BY_PLATEAU: dict[Grade | None, tuple[str, str]] = {
    None: ("", "measure larger sizes (-e 8G); low bandwidth makes them as slow"),
    "GOOD": (
        " at these sizes only, so a poor choice of algorithm or protocol",
        "read the algorithm and protocol in the output of NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING",
    ),
    "SLOW": (
        ", as larger sizes are SLOW too",
        "find the cause at the plateau first, and judge these sizes again",
    ),
    "UNSURE": ("", "decide about the plateau first; low bandwidth makes it as slow"),
}
"""Clause on the affected sizes, and confirmation, for low bandwidth at middle sizes. The key is the plateau's grade."""


def _explain_middle(verdict: BandVerdict, plateau_grade: Grade | None) -> list[_Cause]:
    """Explains slow middle sizes: a constant extra time is start-up time, a proportional one is low bandwidth.

    `plateau_grade` is the grade of the larger sizes; None if they were not measured.
    """
    slow_figures = [figure for figure in verdict.judged if figure.outcome == "slower"]
    if len(slow_figures) < 2:
        return []
    extra_us = [figure.time_us - figure.range_us.typical for figure in slow_figures]
    ratios = [figure.ratio for figure in slow_figures]
    if max(extra_us) <= _MAX_SIMILAR_RATIO * min(extra_us):
        text = (
            f"{number_text(min(extra_us), 3)} to {number_text(max(extra_us), 3)} us more than typical at every slow "
            "size: start-up time (one thread launches many GPUs, -g, or no CUDA graph)"
        )
        return [_Cause(_Evidence.PATTERN, _max_slowdown(verdict), text, "measure in a CUDA graph (-G 50)")]
    if max(ratios) <= _MAX_SIMILAR_RATIO * min(ratios):
        text = f"{min(ratios):.2g} to {max(ratios):.2g} times the typical time at every slow size: low bandwidth"
        scope_text, confirmation = _LOW_BANDWIDTH_BY_PLATEAU[plateau_grade]
        return [_Cause(_Evidence.PATTERN, _max_slowdown(verdict), text + scope_text, confirmation)]
    return []


def _explain_plateau(expectation: Expectation, verdict: BandVerdict) -> list[_Cause]:
    """Compares the maximum busbw with the plateaus of slower routes, of fewer NICs and of PCIe."""
    best, slowdown = expectation.best, _max_slowdown(verdict)
    measured_gbps = max((figure.busbw_gbps or 0.0 for figure in verdict.judged), default=0.0)
    if not measured_gbps or best is None:
        return []
    maximum_text = f"the maximum of {number_text(measured_gbps)} GB/s"
    if measured_gbps >= best.limit_gbps * best.efficiency.low:
        text = f"{maximum_text} is healthy, but smaller plateau sizes do not reach it"
        confirmation = (
            "measure with another NCCL_BUFFSIZE, with registered buffers (-R 1) and without a tuner plug-in; "
            "a faster run shows the cause"
        )
        return [_Cause(_Evidence.PATTERN, slowdown, text, confirmation)]
    suspects = [
        *_slower_routes(expectation, best, measured_gbps),
        *_fewer_nics(expectation, best, measured_gbps),
        *_pcie_instead_of_nvlink(expectation, best, measured_gbps),
    ]
    if suspects:
        return [
            _Cause(_Evidence.MATCHING_FIGURE, slowdown, f"{maximum_text} is typical of {suspect}", confirmation)
            for suspect, confirmation in suspects
        ]
    share_of_typical = measured_gbps / best.plateau_gbps
    text = (
        f"{maximum_text} is {share_of_typical:.0%} of the typical busbw of "
        f"{best.name} over {best.binding_limit.wire} and matches no other route: settings, clocks or other load"
    )
    confirmation = "read the settings (NCCL_DEBUG=INFO) and the clocks (nvidia-smi -q -d PERFORMANCE)"
    return [_Cause(_Evidence.NONE, slowdown, text, confirmation)]


def _are_equal_plateaus(measured_gbps: float, plateau_gbps: float) -> bool:
    return abs(measured_gbps / plateau_gbps - 1) <= _MAX_PLATEAU_DIFFERENCE


def _slower_routes(expectation: Expectation, best: Route, measured_gbps: float) -> Iterator[tuple[str, str]]:
    """Yields each slower route with the measured plateau, and the step that would confirm the route."""
    for route in expectation.routes:
        if route is not best and _are_equal_plateaus(measured_gbps, route.plateau_gbps):
            best_text = f"{best.name} would reach {number_text(best.plateau_gbps)}"
            yield (
                f"{route.name} ({number_text(route.plateau_gbps)}). {best_text}{_needs_text(expectation, best.name)}",
                "read the algorithm in the output of NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING",
            )


def _fewer_nics(expectation: Expectation, best: Route, measured_gbps: float) -> Iterator[tuple[str, str]]:
    """Yields each number of NICs with the measured plateau, and the step that would confirm it.

    Yields nothing if NICs are not the expected limit.
    """
    nics = expectation.system.nics
    if expectation.nodes == 1 or nics is None or best.binding_limit.wire != "NIC":
        return
    for used_nics in range(1, nics.count):
        plateau_gbps = best.plateau_gbps * used_nics / nics.count
        if nics.count % used_nics == 0 and _are_equal_plateaus(measured_gbps, plateau_gbps):
            yield (
                f"{used_nics} of the {nics.count} NICs of a node",
                "count the NICs in the output of NCCL_DEBUG=INFO, and check NCCL_IB_HCA",
            )


def _pcie_instead_of_nvlink(expectation: Expectation, best: Route, measured_gbps: float) -> Iterator[tuple[str, str]]:
    """Yields each PCIe generation with the measured plateau, and the step that would confirm it.

    Yields nothing if NVLink is not the expected limit.
    """
    if expectation.nodes > 1 or best.binding_limit.wire != "NVLink":
        return
    for name, pcie_gbps in _PCIE_BUSBW_GBPS.items():
        if abs(measured_gbps / pcie_gbps - 1) <= _MAX_PCIE_DIFFERENCE:
            yield (
                f"{name}: the GPUs do not use NVLink",
                "look for NV in nvidia-smi topo -m, and for P2P in the output of NCCL_DEBUG=INFO",
            )


def _needs_text(expectation: Expectation, route_name: str) -> str:
    """Sentence on the needs of a route that may be missing. Empty if nothing is known."""
    if route_name == "CollNet" or (route_name == "NVLS" and expectation.nodes > 1):
        return ". It needs a network that reduces (NCCL_COLLNET_ENABLE=1, a SHARP plug-in)"
    if route_name.startswith("NVLS"):
        return (
            ". It needs a switch that reduces "
            "(NCCL 2.17 or later, a fabric manager, no virtual machine, NCCL_NVLS_ENABLE not 0)"
        )
    return ""
