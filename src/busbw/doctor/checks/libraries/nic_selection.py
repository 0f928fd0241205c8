"""Names in NCCL_IB_HCA that select no device, or more devices than the named one."""

from collections.abc import Iterator

from busbw.doctor.model import Evidence, Finding, Machine, Severity, check, require
from busbw.doctor.parts.nccl_settings import read_settings
from busbw.doctor.parts.nics import is_permitted

_RDMA = "sys/class/infiniband"


@check(
    reads="NCCL_IB_HCA in the environment and in NCCL's configuration files; /sys/class/infiniband",
    rule="NCCL_IB_HCA names existing devices, and selects no further device by a common prefix.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    cost="NCCL uses other NICs than intended, fewer of them, or TCP sockets.",
    fix="export NCCL_IB_HCA==DEVICE,DEVICE with the exact names of /sys/class/infiniband",
)
def env_nccl_ib_hca(machine: Machine) -> Iterator[Finding]:
    devices = machine.names_or_empty(_RDMA)
    require(devices, "no RDMA device")
    setting = read_settings(machine).get("NCCL_IB_HCA")
    if setting is None or setting.value.startswith("^"):
        return
    exact_mark = "=" if setting.value.startswith("=") else ""
    words = [word for word in setting.value.removeprefix("=").split(",") if word]
    names = {word.partition(":")[0] for word in words}
    selected = {word: [device for device in devices if is_permitted(f"{exact_mark}{word}", device)] for word in words}
    # Without any selected device, NCCL uses sockets. Otherwise it uses the selected NICs.
    severity: Severity = "risk" if any(selected.values()) else "slow"
    for word, found in selected.items():
        unnamed = sorted({*found} - names)
        # A word that is no device, such as mlx5, is meant as a prefix.
        is_device = word.partition(":")[0] in found
        if not found:
            effect = "no device of this machine"
        elif unnamed and is_device:
            effect = f"also {', '.join(unnamed)}"
        else:
            continue
        problem = f"{word} in NCCL_IB_HCA selects {effect}"
        evidence = (setting.evidence, Evidence(f"/{_RDMA}", ", ".join(devices)))
        yield Finding(severity, problem, evidence, subject=setting.name)
