"""User-space libraries of RDMA, without which NCCL falls back to TCP sockets."""

from collections.abc import Iterator

from busbw.doctor.checks.libraries.nccl_which import installed_nccl
from busbw.doctor.facts.libraries import VERBS, Libraries
from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.traits import rdma_kinds

_PROVIDERS = "etc/libibverbs.d"
_PROVIDER = {"efa": "efa", "infiniband": "mlx5", "roce": "mlx5"}


def _examine(machine: Machine) -> Iterator[Finding]:
    installed_nccl(machine)
    kinds = rdma_kinds(machine)
    if not kinds:
        raise NotApplicable("no RDMA device")
    if not machine.fact(Libraries).find(VERBS):
        evidence = Evidence(source="ldconfig -p and LD_LIBRARY_PATH", value=f"no {VERBS}")
        yield Finding(severity="slow", subject=VERBS, problem=f"{VERBS} is not installed", evidence=(evidence,))
        return
    files = machine.names(_PROVIDERS)
    for provider in sorted({_PROVIDER[kind] for kind in kinds}):
        if f"{provider}.driver" not in files:
            evidence = Evidence(source=f"/{_PROVIDERS}", value=", ".join(files)[:120] or "no files")
            problem = f"libibverbs has no driver {provider}, so it finds no device"
            yield Finding(severity="slow", subject=provider, problem=problem, evidence=(evidence,))


CHECK = Check(
    name="rdma-core-version",
    area="libraries",
    reads=f"{VERBS} in the search path of the dynamic linker; names in /{_PROVIDERS}",
    rule="libibverbs and its drivers for the RDMA devices are installed where NCCL is.",
    source="https://github.com/linux-rdma/rdma-core/blob/master/Documentation/libibverbs.md",
    cost="NCCL finds no RDMA device and uses TCP sockets between nodes.",
    fix="install rdma-core (libibverbs1 and ibverbs-providers) in the image, for EFA the EFA installer",
    examine=_examine,
)
