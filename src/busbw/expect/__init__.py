"""What a healthy system reaches: per size the wire that limits, the busbw and time to expect, and an honest range."""

from busbw.expect.from_log import NetworkNics, estimator, hosts_of, network_nics_finder, scenario_of, system_of
from busbw.expect.limits import COLLECTIVES, bus_factor
from busbw.expect.predict import LATENCY_SOURCE, expect, with_nics
from busbw.expect.types import Efficiency, Estimate, Expectation, ExpectedRange, Limit, Protocol, Route, Scenario

__all__ = [
    "COLLECTIVES",
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
    "bus_factor",
    "estimator",
    "expect",
    "hosts_of",
    "network_nics_finder",
    "scenario_of",
    "system_of",
    "with_nics",
]
