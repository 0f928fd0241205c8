"""What a healthy system reaches: per size the wire that limits, the busbw and time to expect, and an honest range."""

from busbw.expect.from_log import CrossedNics, crossed_nics, estimator, hosts_of, job_of, system_of
from busbw.expect.limits import COLLECTIVES, bus_factor
from busbw.expect.predict import LATENCY_SOURCE, expect, with_nics
from busbw.expect.types import Efficiency, Estimate, Expectation, Job, Limit, Protocol, Range, Route

__all__ = [
    "COLLECTIVES",
    "LATENCY_SOURCE",
    "CrossedNics",
    "Efficiency",
    "Estimate",
    "Expectation",
    "Job",
    "Limit",
    "Protocol",
    "Range",
    "Route",
    "bus_factor",
    "crossed_nics",
    "estimator",
    "expect",
    "hosts_of",
    "job_of",
    "system_of",
    "with_nics",
]
