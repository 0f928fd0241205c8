"""From routes to figures: for each size the quickest route, its time and busbw, and the range that is healthy."""

from collections.abc import Iterable

import msgspec

from busbw.expect.limits import bus_factor, node_count
from busbw.expect.routes import correction, routes
from busbw.expect.types import Estimate, Expectation, ExpectedRange, Protocol, Route, Scenario
from busbw.system import Nics, System

LATENCY_LOW, LATENCY_HIGH = 0.5, 2.5
"""Times the latency of the library's model. Launching each operation from the CPU doubles what the device takes
(4 x H200: 20 us against 9 us), and registered buffers halve it (4.3 us); both are healthy."""
LATENCY_SOURCE = "4 x H200: 9 us in a CUDA graph, 20 us launched one by one, 4.3 us with registered buffers"


LAUNCH_US = 2.9
"""What launching one more kernel takes a thread; 4 x H200, measured with empty kernels in a stream."""


def expect(job: Scenario, system: System, sizes_bytes: Iterable[int]) -> Expectation:
    """The expectation of a job on a system for these sizes."""
    nodes = node_count(job, system)
    if job.ranks == 1:
        return _nothing(job, system, nodes, "one rank: nothing crosses a link, so busbw is 0 whatever the system")
    ways = routes(job, system)
    if not ways:
        return _nothing(job, system, nodes, _why_unknown(job, system, nodes))
    fewest, most = min(job.node_ranks, default=0), max(job.node_ranks, default=0)
    if nodes > 1 and not system.rack_ranks and fewest != most:
        why = f"the nodes have unequal numbers of ranks, {fewest} to {most}: what that costs is not in the model"
        return _nothing(job, system, len(job.node_ranks), why)
    best = max(ways, key=_plateau_gbps)
    return Expectation(
        job=job,
        system=system,
        nodes=nodes,
        routes=ways,
        best=best,
        floor_us=min(min(way.latency_us.values()) for way in ways),
        estimates=tuple(_estimate(job, ways, size) for size in sizes_bytes if size > 0),
        notes=tuple(system.notes),
    )


def _nothing(job: Scenario, system: System, nodes: int, why: str) -> Expectation:
    return Expectation(job=job, system=system, nodes=nodes, unknown=why, notes=tuple(system.notes))


def _why_unknown(job: Scenario, system: System, nodes: int) -> str:
    if system.fabrics and nodes > 1 and system.nics is None:
        return f"the NICs of {system.name} are not known: say them with --nics 8x400"
    if system.generation == "host":
        return "how fast the memory copies is not known: compare with a run on the same machine (--reference FILE)"
    return f"{system.name} says nothing of the wires between {min(job.ranks, job.ranks_per_node)} ranks of a node"


def _plateau_gbps(route: Route) -> float:
    return route.limit_gbps * route.efficiency.typical


def _estimate(job: Scenario, ways: tuple[Route, ...], size_bytes: int) -> Estimate:
    """Of all routes and protocols the quickest, as the library chooses."""
    # A gigabyte per second is a kilobyte per microsecond.
    kilobytes = size_bytes * bus_factor(job.collective, job.ranks) / 1e3
    launches = LAUNCH_US * ((job.gpus_per_thread or 1) - 1)
    max_launches = LAUNCH_US * ((job.gpus_per_thread or min(job.ranks, job.ranks_per_node)) - 1)
    time_us, way, protocol = min(
        (
            (launches + latency + kilobytes / _rate(way, protocol, size_bytes, way.efficiency.typical), way, protocol)
            for way in ways
            for protocol, latency in way.latency_us.items()
        ),
        key=lambda choice: choice[0],
    )
    latency = way.latency_us[protocol]
    shortest = LATENCY_LOW * (latency + launches) + kilobytes / _rate(way, protocol, size_bytes, way.efficiency.high)
    longest = LATENCY_HIGH * (latency + max_launches) + kilobytes / _rate(
        way, protocol, size_bytes, way.efficiency.low
    )
    typical = kilobytes / time_us
    return Estimate(
        size_bytes=size_bytes,
        time_us=ExpectedRange(low=shortest, typical=time_us, high=longest),
        busbw_gbps=ExpectedRange(low=kilobytes / longest, typical=typical, high=kilobytes / shortest),
        route=way.name,
        protocol=protocol,
        wire=way.binding.wire,
        wire_gbps=typical * way.binding.traffic,
    )


def _rate(way: Route, protocol: Protocol, size_bytes: int, efficiency: float) -> float:
    rate = way.limit_gbps * efficiency * way.share[protocol]
    return min(rate, way.cap_gbps.get(protocol, rate)) * correction(way.name, protocol, size_bytes)


def with_nics(system: System, count: int, gbit: float, source: str) -> System:
    """The same system with other NICs."""
    latency = system.nics.latency_us if system.nics else None
    return msgspec.structs.replace(system, nics=Nics(count=count, gbit=gbit, latency_us=latency, source=source))
