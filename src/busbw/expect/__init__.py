"""Expectations for a healthy system: time and busbw per size, with ranges, and which link limits each size.

`expect` (predict.py) computes an expectation. `from_log.py` derives its scenario and system from a log.
"""

from busbw.expect.from_log import (
    NetworkNics,
    effective_system,
    estimator,
    expectation_of,
    hosts_of,
    network_nics_finder,
    scenario_of,
    system_of,
)
from busbw.expect.predict import LATENCY_HIGH, LATENCY_LOW, LATENCY_SOURCE, expect, with_nics, with_sharp
from busbw.expect.routes import can_reduce_in_network
from busbw.expect.types import Efficiency, Estimate, Expectation, ExpectedRange, Limit, Protocol, Route, Scenario

__all__ = [
    "LATENCY_HIGH",
    "LATENCY_LOW",
    "LATENCY_SOURCE",
    "Efficiency",
    "Estimate",
    "Expectation",
    "ExpectedRange",
    "Limit",
    "NetworkNics",
    "Protocol",
    "Route",
    "Scenario",
    "can_reduce_in_network",
    "effective_system",
    "estimator",
    "expect",
    "expectation_of",
    "hosts_of",
    "network_nics_finder",
    "scenario_of",
    "system_of",
    "with_nics",
    "with_sharp",
]
