"""Limits of this process: locked memory, which RDMA needs for every buffer, and open files."""

import re
from collections.abc import Iterator

from busbw.doctor.facts.limits import Limits
from busbw.doctor.model import Evidence, Finding, Machine, NotApplicable, check
from busbw.doctor.parts.pci import gpus

_ENOUGH_BYTES = 64 << 30
_ENOUGH_FILES = 65536
_IPC_LOCK = 14
"""Number of the capability that ignores the limit of locked memory."""


@check(
    reads="limit of locked memory of this process (ulimit -l), CapEff in /proc/self/status; /dev/infiniband",
    rule="With RDMA devices, the limit is unlimited, or at least 64 GiB, or the process has CAP_IPC_LOCK.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    cost="NCCL ends with `ibv_reg_mr failed` or `ibv_create_qp failed` when it registers buffers.",
    fix="add `* - memlock unlimited` to /etc/security/limits.conf; for Slurm set LimitMEMLOCK=infinity for slurmd",
)
def memlock(machine: Machine) -> Iterator[Finding]:
    limit_bytes = machine.fact(Limits).memlock_bytes
    if not any(name.startswith("uverbs") for name in machine.names_or_empty("dev/infiniband")):
        raise NotApplicable("no RDMA device that this process can open")
    if limit_bytes is not None and limit_bytes < _ENOUGH_BYTES and not _may_ignore_limit(machine):
        yield Finding(
            # Without a GPU, the RDMA device may serve as an ordinary network interface only.
            severity="broken" if gpus(machine) else "risk",
            problem=f"locked memory is limited to {limit_bytes >> 10} KiB; RDMA needs it unlimited",
            evidence=(Evidence("ulimit -l", f"{limit_bytes >> 10}"),),
        )


def _may_ignore_limit(machine: Machine) -> bool:
    """True with the capability in the first user namespace, the only one in which the kernel accepts it."""
    capabilities = re.search(r"^CapEff: *([0-9a-f]{1,16})$", machine.text("proc/self/status"), re.MULTILINE)
    is_first = machine.text("proc/self/uid_map").split() == ["0", "0", "4294967295"]
    return capabilities is not None and is_first and bool(int(capabilities[1], 16) >> _IPC_LOCK & 1)


@check(
    reads="hard limit of open files of this process (ulimit -Hn)",
    rule="The hard limit of open files is at least 65,536.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    cost="Jobs of more than a hundred ranks can end with `Too many open files`.",
    fix="add `* - nofile 131072` to /etc/security/limits.conf; for Slurm set LimitNOFILE=131072 for slurmd",
)
def nofile(machine: Machine) -> Iterator[Finding]:
    if not gpus(machine):
        raise NotApplicable("no GPU")
    limit = machine.fact(Limits).max_open_files
    if limit is not None and limit < _ENOUGH_FILES:
        problem = f"a process may open at most {limit} files and sockets"
        yield Finding("risk", problem, (Evidence("ulimit -Hn", str(limit)),))
