"""Comparison of all flows with the rated rate. If all parts are equally slow, peers do not show it."""

import numpy as np

from busbw.find.findings import UndecidedParts
from busbw.find.search import Search
from busbw.system import System

_MIN_RATIO = 0.7
"""Healthy flows of 64 MiB reach more than this part of the rate of a NIC (400 Gb/s: 46 to 49 of 50 GB/s)."""


def slow_network(search: Search, system: System | None) -> list[UndecidedParts]:
    """Returns one entry if all flows between nodes are slow, otherwise none. None if the rated rate is not known."""
    rate_gbps = network_rate_gbps(search)
    if system is None or system.nics is None or rate_gbps is None:
        return []
    rated_gbps = system.nics.gbit / 8
    if rate_gbps >= _MIN_RATIO * rated_gbps:
        return []
    says = (
        f"All flows between nodes reach {rate_gbps:.3g} of the rated {rated_gbps:.3g} GB/s ({system.name}): the "
        "network, or a setting that all nodes share, is slow. Measure two of the nodes with a third one."
    )
    return [UndecidedParts(between=(), slowdown=round(rated_gbps / rate_gbps, 2), says=says)]


def network_rate_gbps(search: Search) -> float | None:
    """Returns the rate of healthy flows between nodes in GB/s. None if no such flow was measured."""
    return _rate_gbps(search, is_network=True)


def nvlink_rate_gbps(search: Search) -> float | None:
    """Returns the rate of healthy flows within nodes in GB/s. None if no such flow was measured."""
    return _rate_gbps(search, is_network=False)


def _rate_gbps(search: Search, *, is_network: bool) -> float | None:
    observed, explanation = search.observations(), search.explain()
    chosen = (observed.paths.is_network == is_network) & ~observed.is_dead
    # At full load on hashed uplinks, healthy flows are slow as well.
    chosen &= ~observed.paths.is_across
    references = explanation.peers.reference[chosen]
    # The reference is the log of microseconds per byte.
    return float(np.exp(-np.median(references)) / 1e3) if len(references) else None
