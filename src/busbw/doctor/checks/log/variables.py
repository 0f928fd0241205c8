"""Variables that make collectives slow, as NCCL read them from the environment or a configuration file."""

from collections.abc import Iterator

from busbw.doctor.model.check import Check, Finding, Severity
from busbw.doctor.nccl_log.nccl_log import NcclLog

_ON, _OFF = ("1",), ("0",)
_HARMFUL: tuple[tuple[str, tuple[str, ...], Severity, int, str], ...] = (
    ("NCCL_P2P_DISABLE", _ON, "slow", 1, "turns NVLink and PCIe peer access off"),
    ("NCCL_SHM_DISABLE", _ON, "risk", 1, "sends data within a node over the network"),
    ("NCCL_IB_DISABLE", _ON, "slow", 2, "turns InfiniBand and RoCE off"),
    ("NCCL_NVLS_ENABLE", _OFF, "risk", 1, "turns the reduction in the NVLink switch off"),
    ("NCCL_CUMEM_ENABLE", _OFF, "risk", 1, "turns NVLS and NVLink between nodes off"),
    ("NCCL_MNNVL_ENABLE", _OFF, "risk", 2, "turns NVLink between nodes off"),
    ("NCCL_NET_GDR_LEVEL", ("0", "LOC"), "slow", 2, "turns GPUDirect RDMA off"),
    ("NCCL_DMABUF_ENABLE", _OFF, "risk", 2, "turns one way of GPUDirect RDMA off"),
    ("NCCL_PXN_DISABLE", _ON, "risk", 3, "lets all-to-all leave the rails"),
    ("NCCL_ALGO", (), "risk", 1, "fixes the algorithm for all sizes"),
    ("NCCL_PROTO", (), "risk", 1, "fixes the protocol for all sizes"),
    ("NCCL_GRAPH_FILE", (), "risk", 1, "replaces NCCL's topology search; jobs of other sizes fail"),
    ("NCCL_IGNORE_DISABLED_P2P", _ON, "risk", 1, "hides broken NVLink connections"),
)
"""Name, harmful values (empty: any), severity, minimum number of nodes, effect."""


def _examine(log: NcclLog) -> Iterator[Finding]:
    log.require_info()
    for name, values, severity, min_nodes, effect in _HARMFUL:
        value, message = log.variables.get(name, (None, None))
        if value is None or message is None or (values and value not in values) or log.node_count < min_nodes:
            continue
        yield Finding(
            severity=severity,
            problem=f"{name}={value} {effect}",
            evidence=(message.evidence,),
            subject=name,
            fix=f"unset {name}; if it is not in the environment, remove it from /etc/nccl.conf and ~/.nccl.conf",
        )


CHECK = Check(
    name="log-variables",
    area="log",
    reads='"set by environment to" messages',
    rule="No variable turns a fast path off or replaces NCCL's choice.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    cost="Depends on the variable.",
    fix="unset the variable",
    examine=_examine,
)
