"""NVLink: links of the GPUs, their registration at the fabric manager, and IMEX channels between nodes."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from busbw.doctor.facts.gpus import Gpu, NvLinks
from busbw.doctor.model import Damage, Evidence, Finding, Machine, NotApplicable, Unreadable, check, require
from busbw.doctor.parts.gpus import gpu_finding, gpus_with_fields, has_nvswitch, require_fields
from busbw.doctor.parts.job import has_just_booted, is_arm, node_count

_NOT_SUPPORTED, _NOT_STARTED, _IN_PROGRESS, _COMPLETED = range(4)
"""States of a GPU's registration at the fabric manager (`Fabric.state`)."""
_UNREGISTERED = (_NOT_STARTED, _IN_PROGRESS)
"""States in which the links are inactive. The check fabric-state reports them."""
_IMEX_CHANNELS = "dev/nvidia-caps-imex-channels"
_SERVICE = ("systemctl", "show", "nvidia-fabricmanager", "--property=LoadState,ActiveState")


def _links(gpu: Gpu) -> NvLinks:
    return gpu.nvlinks or NvLinks(count=0)


def _registration_state(gpu: Gpu) -> int:
    return gpu.fabric.state if gpu.fabric else _NOT_SUPPORTED


@check(
    reads="NVML: nvlinks; /proc/driver/nvidia-nvswitch/devices",
    rule="All GPUs of one model at an NVLink switch have the same number of active links.",
    source="https://github.com/Azure/azurehpc-health-checks",
    cost="The GPU loses the share of its missing links, and a ring runs at its speed; without links it uses PCIe.",
    fix="drain the node, then sudo nvidia-smi --gpu-reset; nvidia-smi nvlink -s -i INDEX; replace the GPU or the "
    "baseboard if links stay inactive",
)
@require_fields("nvlinks")
def nvlink_inactive(machine: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    # Bridges join only some of the PCIe cards, so inactive links are normal without a switch. Virtual machines and
    # racks do not list their switches, but register their GPUs.
    is_registered = any(_registration_state(gpu) == _COMPLETED for gpu in gpus)
    require(has_nvswitch(machine) or is_registered, "no NVLink switch")
    require(len(gpus) != 1, "one GPU, which may be that of a virtual machine without NVLinks")
    for gpu in gpus:
        active = _links(gpu).active
        max_active = max(_links(peer).active for peer in gpus if peer.name == gpu.name)
        usual = max_active or _links(gpu).count  # if no GPU of the model has active links, all links count
        if active < usual and not gpu.mig and _registration_state(gpu) not in _UNREGISTERED:
            damage = Damage(fabric_share=active / usual) if active else None
            problem = f"has {active} of {usual} NVLinks active"
            yield gpu_finding(gpu, "slow" if active else "broken", problem, "nvlinks", damage=damage)


@check(
    reads="NVML: nvlinks",
    rule="All active links of GPUs of one model have the same speed.",
    source="https://docs.nvidia.com/health-validation/",
    cost="The bandwidth within the node falls in proportion, because the slowest link sets the rate of a ring.",
    fix="drain the node, then sudo nvidia-smi --gpu-reset; nvidia-smi nvlink -s -i INDEX; replace the GPU if its links "
    "stay slow",
)
@require_fields("nvlinks")
def nvlink_speed(_: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    require(any(_links(gpu).active for gpu in gpus), "no active NVLink")
    for gpu in gpus:
        speed = min(_links(gpu).speeds_mbps, default=0)
        usual = max(max(_links(peer).speeds_mbps, default=0) for peer in gpus if peer.name == gpu.name)
        if 0 < speed < usual:
            problem = f"has NVLinks at {speed / 1000:g} GB/s; the usual speed is {usual / 1000:g} GB/s"
            yield gpu_finding(gpu, "slow", problem, "nvlinks", damage=Damage(fabric_share=speed / usual))
    if unknown := [gpu.label for gpu in gpus if _links(gpu).active and not _links(gpu).speeds_mbps]:
        raise Unreadable(f"the speed of the NVLinks of {unknown[0]}")


@check(
    reads="NVML: fabric; /proc/uptime",
    rule="Each GPU with an NVLink fabric is registered at the fabric manager with success.",
    source="https://github.com/NVIDIA/NVSentinel/issues/891",
    cost="CUDA fails with error 802 (system not yet initialized), or the GPU has no NVLink peers.",
    fix="compare nv-fabricmanager --version with the driver; sudo systemctl restart nvidia-fabricmanager; "
    "sudo nvidia-smi --gpu-reset",
)
@require_fields("fabric")
def fabric_state(machine: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    fabrics = [(gpu, gpu.fabric) for gpu in gpus if gpu.fabric and gpu.fabric.state != _NOT_SUPPORTED]
    require(fabrics, "no NVLink fabric")
    is_registering_after_boot = False
    for gpu, fabric in fabrics:
        if fabric.state in _UNREGISTERED and has_just_booted(machine):
            is_registering_after_boot = True
        elif fabric.state != _COMPLETED:
            text = "not registered" if fabric.state == _NOT_STARTED else "still registering"
            yield gpu_finding(gpu, "broken", f"is {text} at the fabric manager", "fabric")
        elif fabric.status:
            yield gpu_finding(gpu, "broken", f"failed to register at the fabric: error {fabric.status}", "fabric")
    if is_registering_after_boot:
        raise Unreadable("a fabric state that is final; the node has just booted")


@check(
    reads=f"{' '.join(_SERVICE)}; NVML: fabric; /proc/uptime",
    rule="The service nvidia-fabricmanager is active on a machine with NVLink switches.",
    source="https://github.com/NVIDIA/nccl/issues/1488",
    cost="CUDA fails with error 802; a running job goes on, but lost links and NVLS are not set up again.",
    fix="end all jobs, then sudo systemctl enable --now nvidia-fabricmanager; sudo nvidia-smi --gpu-reset",
)
def fabric_manager_service(machine: Machine) -> Iterator[Finding]:
    require(has_nvswitch(machine) and machine.has("run/systemd/system"), "no NVLink switch, or no systemd")
    values = dict(line.split("=", 1) for line in machine.output(*_SERVICE).splitlines() if "=" in line)
    if "ActiveState" not in values:
        raise Unreadable("ActiveState of nvidia-fabricmanager")
    if values.get("LoadState") != "loaded":
        raise NotApplicable("no such service; the fabric manager may run in a container, and fabric-state decides")
    if values["ActiveState"] in ("active", "activating", "reloading"):
        return
    is_registered = False
    with suppress(Unreadable, NotApplicable):
        gpus, _ = gpus_with_fields(machine, "fabric")
        is_registered = all(_registration_state(gpu) == _COMPLETED for gpu in gpus)
    if not is_registered and values["ActiveState"] == "inactive" and has_just_booted(machine):
        raise Unreadable("the final state of the fabric manager; the node has just booted")
    problem = f"the fabric manager is {values['ActiveState']}"
    evidence = (Evidence(" ".join(_SERVICE), values["ActiveState"]),)
    yield Finding("risk" if is_registered else "broken", problem, evidence)


@check(
    reads="NVML: fabric; /dev/nvidia-caps-imex-channels; variables with the size of the job",
    rule="A node with Grace processors in an NVLink domain has an IMEX channel. A job on one node needs none.",
    source="https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/",
    cost="NCCL 2.25 and later end a job on several nodes; older versions use the network instead of NVLink.",
    fix="echo options nvidia NVreg_CreateImexChannel0=1 | sudo tee /etc/modprobe.d/imex.conf; sudo reboot; in a "
    "container, let the toolkit create channel 0: NVIDIA_IMEX_CHANNELS=0",
)
@require_fields("fabric")
def imex_channel(machine: Machine, gpus: Sequence[Gpu]) -> Iterator[Finding]:
    # `joins_nodes` can be true on boards of other machines too, such as HGX B200, but NVLink ends at their switches.
    is_in_rack = is_arm(machine) and any(gpu.fabric and gpu.fabric.joins_nodes for gpu in gpus)
    require(node_count(machine) != 1 and is_in_rack, "NVLink does not leave the node")
    if not machine.names_or_empty(_IMEX_CHANNELS):
        problem = "there is no IMEX channel, so NVLink between nodes cannot be used"
        yield Finding("risk", problem, (Evidence(f"/{_IMEX_CHANNELS}", "does not exist"),))
