"""NVLinks of the GPUs: number, speed, mode, errors, and access between peers."""

from collections.abc import Iterator, Sequence

from busbw.doctor.facts.gpus import Gpu
from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable, Unreadable
from busbw.doctor.model.damage import Damage
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.gpus import gpu_finding, has_nvswitch, nvml_check, read_nvml, reporting

_UNREGISTERED = (1, 2)
"""Fabric states in which links are inactive; fabric-state reports them."""
_MAX_RETRIES = 10
"""Retries within a second that cost nothing."""
_STATUS = {0: "OK", 1: "chipset not supported", 2: "GPU not supported", 3: "topology not supported", 4: "disabled"}


def _active(gpu: Gpu) -> int:
    return gpu.nvlinks.count - len(gpu.nvlinks.inactive) if gpu.nvlinks else 0


def _examine_inactive(machine: Machine) -> Iterator[Finding]:
    gpus, failure = reporting(machine, "nvlinks")
    # Bridges join only some of the PCIe cards, so inactive links are normal without a switch.
    if not failure and not has_nvswitch(machine) and not any(gpu.nvlinks and gpu.nvlinks.to_switch for gpu in gpus):
        raise NotApplicable("no NVLink switch")
    for gpu in gpus:
        usual = max(_active(each) for each in gpus if each.name == gpu.name) or (
            gpu.nvlinks.count if gpu.nvlinks else 0
        )
        active = _active(gpu)
        if active < usual and not gpu.mig and not (gpu.fabric and gpu.fabric.state in _UNREGISTERED):
            problem = f"has {active} of {usual} NVLinks active"
            damage = Damage(fabric_share=active / usual) if active else None
            yield gpu_finding(gpu, "slow" if active else "broken", problem, "nvlinks", damage=damage)
    if failure:
        raise Unreadable(failure)


def _judge_speed(gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu in gpus:
        own = gpu.nvlinks.speeds_mbps if gpu.nvlinks else ()
        usual = max((speed for each in gpus if each.name == gpu.name for speed in _speeds(each)), default=0)
        if own and own[0] < usual:
            problem = f"has NVLinks at {own[0] / 1000:g} GB/s; the usual speed is {usual / 1000:g} GB/s"
            yield gpu_finding(gpu, "slow", problem, "nvlinks", damage=Damage(fabric_share=own[0] / usual))


def _speeds(gpu: Gpu) -> tuple[int, ...]:
    return gpu.nvlinks.speeds_mbps if gpu.nvlinks else ()


def _judge_mode(gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu in gpus:
        if not gpu.nvlink_best_mode:
            yield gpu_finding(gpu, "slow", "has its NVLinks in a mode with reduced bandwidth", "nvlink_best_mode")


def _judge_errors(gpus: Sequence[Gpu]) -> Iterator[Finding]:
    for gpu in gpus:
        recoveries, retries = (gpu.nvlinks.recoveries or 0, gpu.nvlinks.retries or 0) if gpu.nvlinks else (0, 0)
        if recoveries:
            yield gpu_finding(gpu, "slow", f"has NVLinks that recovered {recoveries} times within a second", "nvlinks")
        elif retries > _MAX_RETRIES:
            yield gpu_finding(gpu, "risk", f"has NVLinks with {retries} retries within a second", "nvlinks")


def _examine_peers(machine: Machine) -> Iterator[Finding]:
    nvml = read_nvml(machine)
    gpus, failure = reporting(machine, "nvlinks")
    to_switch = {
        gpu.index for gpu in gpus if gpu.nvlinks and gpu.nvlinks.to_switch and not gpu.mig and _registered(gpu)
    }
    if not failure and not any(map(_active, gpus)):
        raise NotApplicable("no active NVLink")
    if not nvml.peer_pairs and len(nvml.gpus) > 1:
        failure = "peer access between GPUs"
    for fault in nvml.peer_faults:
        is_joined = {fault.first, fault.second} <= to_switch
        if is_joined or (fault.nvlink == 0 and {fault.first, fault.second} <= {gpu.index for gpu in gpus}):
            pair = f"GPU{fault.first} and GPU{fault.second}"
            nvlink, read = (_STATUS.get(code, "not supported") for code in (fault.nvlink, fault.read))
            yield Finding(
                severity="broken",
                subject=f"GPU{fault.first}-GPU{fault.second}",
                problem=f"{pair} have NVLink but no peer access",
                evidence=(Evidence(source="nvidia-smi topo -p2p", value=f"NVLink: {nvlink}, read: {read}"),),
            )
    if failure:
        raise Unreadable(failure)


def _registered(gpu: Gpu) -> bool:
    return not (gpu.fabric and gpu.fabric.state in _UNREGISTERED)


CHECKS = (
    Check(
        name="nvlink-inactive",
        area="gpu",
        reads="NVML: nvlinks",
        rule="All GPUs of one model at an NVLink switch have the same number of active links.",
        source="https://github.com/Azure/azurehpc-health-checks",
        cost="The GPU loses the share of its missing links, and a ring runs at its speed; without links it uses PCIe.",
        fix="reset all GPUs; reseat or replace the GPU or the baseboard if links stay inactive",
        examine=_examine_inactive,
    ),
    nvml_check(
        "nvlink-speed",
        ("nvlinks",),
        _judge_speed,
        rule="All active links of GPUs of one model have the same speed.",
        source="https://docs.nvidia.com/health-validation/",
        cost="The bandwidth within the node falls in proportion, because the slowest link sets the rate of a ring.",
        fix="reset all GPUs; replace the GPU if its links stay slow",
    ),
    nvml_check(
        "nvlink-bw-mode",
        ("nvlink_best_mode",),
        _judge_mode,
        rule="The NVLinks are in the mode with the full bandwidth.",
        source="https://docs.nvidia.com/deploy/nvml-api/",
        cost="The mode saves power: NVLink has a part of its bandwidth, such as a half, and nothing reports an error.",
        fix="nvidia-smi nvlink -sBwMode FULL",
    ),
    nvml_check(
        "nvlink-error-counters",
        ("nvlinks",),
        _judge_errors,
        rule=f"No link of a GPU recovers, and at most {_MAX_RETRIES} packets are sent again, within a second.",
        source="https://github.com/NVIDIA/nvidia-resiliency-ext/pull/302",
        cost="Each recovery stops the link for milliseconds, which appears as tail latency; retries cost little.",
        fix="drain the node, then reset all GPUs; replace the GPU or the baseboard if errors return",
    ),
    Check(
        name="nvlink-p2p-matrix",
        area="gpu",
        reads="NVML: peer_faults, nvlinks",
        rule="GPUs that NVLink joins have peer access to each other.",
        source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        cost="NCCL ends with `P2P is disabled between NVLINK connected GPUs`, or copies through host memory.",
        fix="start nvidia-fabricmanager and reset all GPUs; look for peer settings in /proc/driver/nvidia/params",
        examine=_examine_peers,
    ),
)
