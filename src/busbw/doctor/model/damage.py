"""Effect of a finding on collectives, in the terms of the expectation's model (`busbw.expect`)."""

from msgspec import Struct


class Damage(Struct, kw_only=True, frozen=True):
    """Shares and limits that remain. The slowest member determines a ring, so one bad part sets the rate of a job."""

    nic_share: float = 1.0
    """Remaining share of the bandwidth between nodes."""
    fabric_share: float = 1.0
    """Remaining share of the bandwidth between the GPUs of a node."""
    nvls: bool = True
    """False if the NVLink switch no longer reduces."""
    fabric_cap_gbps: float | None = None
    """Maximum busbw within a node in GB/s. None for no further limit."""
