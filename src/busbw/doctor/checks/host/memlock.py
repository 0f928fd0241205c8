"""Limit of locked memory, which RDMA needs for every buffer."""

from collections.abc import Iterator

from busbw.doctor.facts.limits import Limits
from busbw.doctor.model.check import Check, Evidence, Finding
from busbw.doctor.model.machine import Machine

_ENOUGH_BYTES = 64 << 30


def _examine(machine: Machine) -> Iterator[Finding]:
    limit_bytes = machine.fact(Limits).memlock_bytes
    if limit_bytes is not None and limit_bytes < _ENOUGH_BYTES:
        yield Finding(
            severity="broken" if machine.names_or_none("sys/class/infiniband") else "risk",
            problem=f"locked memory is limited to {limit_bytes >> 10} KiB; RDMA needs it unlimited",
            evidence=(Evidence(source="ulimit -l", value=f"{limit_bytes >> 10}"),),
        )


CHECK = Check(
    name="memlock",
    area="host",
    reads="limit of locked memory of this process (ulimit -l)",
    rule="The limit is unlimited, or at least 64 GiB.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    cost="NCCL ends with `ibv_reg_mr failed` or `ibv_create_qp failed` when it registers buffers.",
    fix="add `* - memlock unlimited` to /etc/security/limits.conf; for Slurm set LimitMEMLOCK=infinity for slurmd",
    examine=_examine,
)
