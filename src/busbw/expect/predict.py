"""Predicts time and busbw of a scenario on a system: for each size the fastest route, with healthy ranges.

A route is an algorithm of NCCL with the links it uses (`routes.py`). A protocol is LL, LL128 or Simple.
A domain is a node, or a rack with nodes that NVLink joins.
"""

from collections.abc import Iterable

import msgspec

from busbw.collectives import collectives
from busbw.expect.limits import domain_count
from busbw.expect.routes import bandwidth_correction, list_routes
from busbw.expect.types import Estimate, Expectation, ExpectedRange, Protocol, Route, Scenario
from busbw.system import Nics, System
from busbw.units import bandwidth_gbps, transfer_time_us

LATENCY_LOW, LATENCY_HIGH = 0.5, 2.5
"""Factors on the latency of the model, for the lower and the upper end of the healthy range.

At small sizes, launching each operation from the CPU doubles the device's time (4 x H200: 20 us against 9 us), and
registered buffers halve it (4.3 us). Both are healthy."""
LATENCY_SOURCE = "4 x H200: 9 us in a CUDA graph, 20 us launched one by one, 4.3 us with registered buffers"
"""Source of both factors."""

_MIN_LAUNCHED_HIGH_US = 36.0
"""If the CPU launches the operations, the healthy range of their latency ends here or higher.

The launch dominates the time of small operations, so this value does not depend on the collective. It is 20 us, the
time of a small operation on 4 x H200, times 1.8, the factor between two starts of one command
(`statistics.run_variation`). With -g 4 on the same GPUs, a broadcast of 1 KiB takes 25 us, which is in this range.
Alltoall takes up to 40 us (bench/results/h200-x4-parity.md): for it, the model's latency and further launches give a
higher end."""

_LAUNCH_US = 2.9
"""Time that a thread needs for each further kernel launch. Measured on 4 x H200 with empty kernels in a stream."""


def expect(scenario: Scenario, system: System, sizes_bytes: Iterable[int]) -> Expectation:
    """Returns the expectation of a scenario on a system for these sizes. Sizes of 0 are skipped.

    If the system or the model does not cover the scenario, `Expectation.unknown` has the reason.
    """
    domains = domain_count(scenario, system)
    if scenario.ranks == 1:
        reason = "one rank: nothing crosses a link, so busbw is 0 on any system"
        return _unknown_expectation(scenario, system, domains, reason)
    if scenario.shares_gpus:
        reason = "several ranks share one GPU: the model does not cover this"
        return _unknown_expectation(scenario, system, domains, reason)
    routes = list_routes(scenario, system)
    if not routes:
        return _unknown_expectation(scenario, system, domains, _unknown_reason(scenario, system, domains))
    min_ranks, max_ranks = min(scenario.node_ranks, default=0), max(scenario.node_ranks, default=0)
    is_domain_a_node = system.rack_ranks is None
    if domains > 1 and is_domain_a_node and min_ranks != max_ranks:
        reason = f"the nodes have unequal numbers of ranks, {min_ranks} to {max_ranks}: the model does not cover this"
        node_count = len(scenario.node_ranks)  # `domains` assumes equal nodes
        return _unknown_expectation(scenario, system, node_count, reason)
    return Expectation(
        job=scenario,
        system=system,
        nodes=domains,
        routes=routes,
        best=max(routes, key=lambda route: route.plateau_gbps),
        floor_us=min(min(route.latency_us.values()) for route in routes),
        estimates=tuple(_estimate_size(scenario, routes, size) for size in sizes_bytes if size > 0),
        notes=tuple(system.notes),
    )


def _unknown_expectation(scenario: Scenario, system: System, domains: int, reason: str) -> Expectation:
    return Expectation(job=scenario, system=system, nodes=domains, unknown=reason, notes=tuple(system.notes))


def _unknown_reason(scenario: Scenario, system: System, domains: int) -> str:
    if system.fabrics and domains > 1 and system.nics is None:
        return f"the NICs of {system.name} are not known: state them with --nics 8x400"
    if system.generation == "host":
        return "the host backend has no expectation: the copy rate of memory is not known"
    return f"{system.name} describes no links between {min(scenario.ranks, scenario.ranks_per_node)} ranks of a node"


def _estimate_size(scenario: Scenario, routes: tuple[Route, ...], size_bytes: int) -> Estimate:
    """Estimates one size with the route and protocol that are fastest for this size, because NCCL chooses them.

    Time = launches + latency + size x bus factor / busbw.
    """
    factor = collectives()[scenario.collective].bus_factor_of(scenario.ranks)
    # A thread launches one kernel for each of its GPUs. The latency includes the first launch. If the number of GPUs
    # per thread is unknown, the typical time assumes one GPU, and the upper end assumes all GPUs of a node.
    gpus_per_thread = scenario.gpus_per_thread or 1
    max_gpus_per_thread = scenario.gpus_per_thread or min(scenario.ranks, scenario.ranks_per_node)
    launches_us = _LAUNCH_US * (gpus_per_thread - 1)
    max_launches_us = _LAUNCH_US * (max_gpus_per_thread - 1)

    def transfer_us(route: Route, protocol: Protocol, efficiency: float) -> float:
        return transfer_time_us(size_bytes, _busbw_gbps(route, protocol, size_bytes, efficiency), factor)

    def typical_us(route: Route, protocol: Protocol) -> float:
        return launches_us + route.latency_us[protocol] + transfer_us(route, protocol, route.efficiency.typical)

    candidates = [(route, protocol) for route in routes for protocol in route.latency_us]
    route, protocol = min(candidates, key=lambda candidate: typical_us(*candidate))
    time_us, latency_us = typical_us(route, protocol), route.latency_us[protocol]
    # The best time has the lowest latency and the highest efficiency, and the worst time the opposite.
    min_us = LATENCY_LOW * (latency_us + launches_us) + transfer_us(route, protocol, route.efficiency.high)
    max_latency_us = LATENCY_HIGH * (latency_us + max_launches_us)
    if not scenario.is_in_graph:
        max_latency_us = max(max_latency_us, _MIN_LAUNCHED_HIGH_US)
    max_us = max_latency_us + transfer_us(route, protocol, route.efficiency.low)
    busbw_gbps = ExpectedRange(
        low=bandwidth_gbps(size_bytes, max_us, factor),
        typical=bandwidth_gbps(size_bytes, time_us, factor),
        high=bandwidth_gbps(size_bytes, min_us, factor),
    )
    return Estimate(
        size_bytes=size_bytes,
        time_us=ExpectedRange(low=min_us, typical=time_us, high=max_us),
        busbw_gbps=busbw_gbps,
        route=route.name,
        protocol=protocol,
        wire=route.binding_limit.wire,
        wire_gbps=busbw_gbps.typical * route.binding_limit.traffic,
    )


def _busbw_gbps(route: Route, protocol: Protocol, size_bytes: int, efficiency: float) -> float:
    """Returns the busbw of a protocol on a route, in GB/s, without latency. `efficiency`: fraction of the limit."""
    busbw_gbps = route.limit_gbps * efficiency * route.share[protocol]
    capped_gbps = min(busbw_gbps, route.cap_gbps.get(protocol, busbw_gbps))
    return capped_gbps * bandwidth_correction(route, protocol, size_bytes)


def with_nics(system: System, nics: Nics) -> System:
    """Returns a copy of the system with number and rate of these NICs, on the same network."""
    return msgspec.structs.replace(system, nics=system.nics.with_count_and_rate_of(nics) if system.nics else nics)


def with_sharp(system: System) -> System:
    """Returns a copy of the system with a network that reduces. Unchanged if the system has no NICs."""
    if system.nics is None:
        return system
    return msgspec.structs.replace(system, nics=msgspec.structs.replace(system.nics, sharp=True))
