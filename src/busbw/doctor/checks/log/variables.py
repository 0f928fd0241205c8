"""Variables that NCCL read from the environment or a configuration file, and that limit collectives."""

from collections.abc import Iterator

from busbw.doctor.model.check import Check, Finding
from busbw.doctor.nccl_log.nccl_log import NcclLog

_LIMITING: dict[str, tuple[tuple[str, ...], int, str]] = {
    "NCCL_SHM_DISABLE": (("1",), 1, "sends data within a node over the network"),
    "NCCL_NVLS_ENABLE": (("0",), 1, "turns the reduction in the NVLink switch off"),
    "NCCL_CUMEM_ENABLE": (("0",), 1, "turns NVLS and NVLink between nodes off"),
    "NCCL_MNNVL_ENABLE": (("0",), 2, "turns NVLink between nodes off"),
    "NCCL_PXN_DISABLE": (("1",), 3, "lets all-to-all leave the rails"),
    "NCCL_ALGO": (("Ring", "Tree", "ring", "tree"), 1, "fixes the algorithm for all sizes"),
    "NCCL_PROTO": (("LL", "LL128", "Simple", "simple"), 1, "fixes the protocol for all sizes"),
    "NCCL_GRAPH_FILE": ((), 1, "replaces NCCL's topology search, and jobs with other GPUs fail"),
    "NCCL_IGNORE_DISABLED_P2P": (("1",), 1, "hides broken connections between GPUs"),
}
"""Values (empty: all), minimum number of nodes, and effect by name. Other checks know the effects of more variables."""
_NEEDS_NO_NVLS = ("FasTrak", "GPUDirectTCPX")
"""Networks that require NCCL_NVLS_ENABLE=0 (NVIDIA/aicr#422)."""


def _examine(log: NcclLog) -> Iterator[Finding]:
    log.require_info()
    for name, (values, min_nodes, effect) in _LIMITING.items():
        message = log.variable(name, *values)
        is_required = name == "NCCL_NVLS_ENABLE" and any(
            network.startswith(_NEEDS_NO_NVLS) for network, _ in log.networks.values()
        )
        if message is not None and log.node_count >= min_nodes and not is_required:
            yield Finding(
                severity="risk",
                problem=f"{name} {effect}",
                evidence=(message.evidence,),
                subject=name,
                fix=f"unset {name}; it can also be in /etc/nccl.conf or ~/.nccl.conf",
            )


CHECK = Check(
    name="log-variables",
    area="log",
    reads='"set by environment to" messages',
    rule="No variable turns a fast path off or replaces NCCL's choice.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    cost="Depends on the variable: without NVLS, an all_reduce in a node is 24 % slower on H200.",
    fix="unset the variable",
    examine=_examine,
)
