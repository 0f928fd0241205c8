"""Constants of NCCL's cost model that several routes share: latencies, protocols and efficiencies.

A domain is a node, or a rack with nodes that NVLink joins.
"""

from busbw.expect.types import Efficiency, Protocol
from busbw.system import Fabric, System

# Fractions of their limits that routes reach, with sources (`Efficiency.source`).
PCIE = Efficiency(
    low=0.5,
    typical=0.83,
    high=1.0,
    source="NCCL src/graph/topo.h: 5/6, because INTEL_P2P_OVERHEAD counts 6/5 of the bytes; "
    "low: half, if the bytes go through host memory",
)
NET_RING = Efficiency(
    low=0.85, typical=0.97, high=1.02, source="published: 46 to 49 GB/s for each 400 Gb/s, 24 for 200, 12 for 100"
)

# Base latency of an operation, and latency of each step over NVLink, PCIe and the network, in microseconds.
BASE_US: dict[str, dict[Protocol, float]] = {
    "Tree": {"LL": 6.8, "LL128": 14.0, "Simple": 8.4},
    "Ring": {"LL": 6.6, "LL128": 14.0, "Simple": 8.4},
}
_STEP_US: dict[str, dict[str, dict[Protocol, float]]] = {
    "NVLink": {
        "Tree": {"LL": 0.6, "LL128": 1.25, "Simple": 4.0},
        "Ring": {"LL": 0.6, "LL128": 1.9, "Simple": 3.4},
    },
    "PCIe": {
        "Tree": {"LL": 1.0, "LL128": 1.9, "Simple": 4.0},
        "Ring": {"LL": 1.0, "LL128": 2.5, "Simple": 5.7},
    },
    "NIC": {
        "Tree": {"LL": 5.0, "LL128": 8.5, "Simple": 14.0},
        "Ring": {"LL": 2.7, "LL128": 4.0, "Simple": 14.0},
    },
}
# Maximum busbw of LL on one domain, on two, and on more, by GPU generation.
_LL_CAP_GBPS = {
    "volta": (39.0, 39.0, 20.4),
    "ampere": (87.7, 22.5, 19.0),
    "hopper": (141.0, 45.0, 35.0),
    "blackwell": (282.0, 90.0, 70.0),
}
_PROTOCOLS: tuple[Protocol, ...] = ("LL", "LL128", "Simple")


def usable_protocols(system: System, fabric: Fabric | None) -> tuple[Protocol, ...]:
    """Returns the usable protocols. The model assumes LL128 only for NVIDIA GPUs.

    LL128 needs atomic stores of 128 bytes, which PCIe does not guarantee. Without a fabric (`fabric` is None) each
    domain has one rank, so no link within a domain prevents LL128.
    """
    has_nvidia_gpus = system.generation not in ("cdna", "host")
    allows_ll128 = fabric is None or fabric.kind == "NVLink"
    has_ll128 = has_nvidia_gpus and allows_ll128
    return tuple(protocol for protocol in _PROTOCOLS if has_ll128 or protocol != "LL128")


def step_within_domain_us(algorithm: str, protocol: Protocol, fabric: Fabric | None) -> float:
    """Returns the latency of a step within a domain: over PCIe if the fabric is PCIe, otherwise over NVLink."""
    link = "PCIe" if fabric is not None and fabric.kind == "PCIe" else "NVLink"
    return _STEP_US[link][algorithm][protocol]


def step_between_domains_us(algorithm: str, protocol: Protocol, system: System) -> float:
    """Returns the latency of a step between domains, including `nic_latency_us`."""
    return _STEP_US["NIC"][algorithm][protocol] + nic_latency_us(system)


def nic_latency_us(system: System) -> float:
    """Returns the latency that the system's network plug-in adds to each step between domains."""
    return system.nics.latency_us.value if system.nics and system.nics.latency_us else 0.0


def ll_cap_gbps(system: System, domains: int) -> dict[Protocol, float]:
    """Returns the maximum busbw of LL. Empty if NCCL has none for the GPU generation."""
    caps_gbps = _LL_CAP_GBPS.get(system.generation)
    if caps_gbps is None:
        return {}
    index = min(domains, len(caps_gbps)) - 1
    return {"LL": caps_gbps[index]}
