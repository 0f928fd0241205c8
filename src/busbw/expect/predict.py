"""Estimates from routes: for each size the fastest route, with time, busbw and their healthy ranges."""

from collections.abc import Iterable

import msgspec

from busbw.expect.limits import bus_factor, node_count
from busbw.expect.routes import correction, routes
from busbw.expect.types import Estimate, Expectation, ExpectedRange, Protocol, Route, Scenario
from busbw.system import Nics, System

LATENCY_LOW, LATENCY_HIGH = 0.5, 2.5
"""Factors on the model's latency for the healthy range. Launching each operation from the CPU doubles the device's time
(4 x H200: 20 us against 9 us), and registered buffers halve it (4.3 us). Both are healthy."""
LATENCY_SOURCE = "4 x H200: 9 us in a CUDA graph, 20 us launched one by one, 4.3 us with registered buffers"


LAUNCH_US = 2.9
"""Time of a thread for one more kernel launch. Measured on 4 x H200 with empty kernels in a stream."""


def expect(job: Scenario, system: System, sizes_bytes: Iterable[int]) -> Expectation:
    """Returns the expectation of a scenario on a system for these sizes. Sizes of 0 are skipped."""
    nodes = node_count(job, system)
    if job.ranks == 1:
        return _unknown(job, system, nodes, "one rank: nothing crosses a link, so busbw is 0 on any system")
    candidates = routes(job, system)
    if not candidates:
        return _unknown(job, system, nodes, _unknown_reason(job, system, nodes))
    min_ranks, max_ranks = min(job.node_ranks, default=0), max(job.node_ranks, default=0)
    if nodes > 1 and not system.rack_ranks and min_ranks != max_ranks:
        reason = f"the nodes have unequal numbers of ranks, {min_ranks} to {max_ranks}: the model does not cover this"
        return _unknown(job, system, len(job.node_ranks), reason)
    best = max(candidates, key=_plateau_gbps)
    return Expectation(
        job=job,
        system=system,
        nodes=nodes,
        routes=candidates,
        best=best,
        floor_us=min(min(route.latency_us.values()) for route in candidates),
        estimates=tuple(_estimate(job, candidates, size) for size in sizes_bytes if size > 0),
        notes=tuple(system.notes),
    )


def _unknown(job: Scenario, system: System, nodes: int, reason: str) -> Expectation:
    return Expectation(job=job, system=system, nodes=nodes, unknown=reason, notes=tuple(system.notes))


def _unknown_reason(job: Scenario, system: System, nodes: int) -> str:
    if system.fabrics and nodes > 1 and system.nics is None:
        return f"the NICs of {system.name} are not known: state them with --nics 8x400"
    if system.generation == "host":
        return "the memory's copy rate is not known: compare with a run on the same machine (--reference FILE)"
    return f"{system.name} describes no links between {min(job.ranks, job.ranks_per_node)} ranks of a node"


def _plateau_gbps(route: Route) -> float:
    return route.limit_gbps * route.efficiency.typical


def _estimate(job: Scenario, candidates: tuple[Route, ...], size_bytes: int) -> Estimate:
    """Estimates one size with the fastest route and protocol, as NCCL chooses them."""
    # 1 GB/s is 1 kB/us.
    kilobytes = size_bytes * bus_factor(job.collective, job.ranks) / 1e3
    launches = LAUNCH_US * ((job.gpus_per_thread or 1) - 1)
    max_launches = LAUNCH_US * ((job.gpus_per_thread or min(job.ranks, job.ranks_per_node)) - 1)
    time_us, route, protocol = min(
        (
            (
                launches + latency + kilobytes / _rate(route, protocol, size_bytes, route.efficiency.typical),
                route,
                protocol,
            )
            for route in candidates
            for protocol, latency in route.latency_us.items()
        ),
        key=lambda choice: choice[0],
    )
    latency = route.latency_us[protocol]
    shortest = LATENCY_LOW * (latency + launches) + kilobytes / _rate(
        route, protocol, size_bytes, route.efficiency.high
    )
    longest = LATENCY_HIGH * (latency + max_launches) + kilobytes / _rate(
        route, protocol, size_bytes, route.efficiency.low
    )
    typical = kilobytes / time_us
    return Estimate(
        size_bytes=size_bytes,
        time_us=ExpectedRange(low=shortest, typical=time_us, high=longest),
        busbw_gbps=ExpectedRange(low=kilobytes / longest, typical=typical, high=kilobytes / shortest),
        route=route.name,
        protocol=protocol,
        wire=route.binding.wire,
        wire_gbps=typical * route.binding.traffic,
    )


def _rate(route: Route, protocol: Protocol, size_bytes: int, efficiency: float) -> float:
    rate = route.limit_gbps * efficiency * route.share[protocol]
    return min(rate, route.cap_gbps.get(protocol, rate)) * correction(route.name, protocol, size_bytes)


def with_nics(system: System, count: int, gbit: float, source: str) -> System:
    """Returns a copy of the system with other NICs. Their latency is kept."""
    latency = system.nics.latency_us if system.nics else None
    return msgspec.structs.replace(system, nics=Nics(count=count, gbit=gbit, latency_us=latency, source=source))
