"""Device nodes of NVIDIA GPUs in a container."""

import re
from collections.abc import Iterator

from busbw.doctor.facts.device_nodes import DeviceNodes
from busbw.doctor.model.check import Check, Evidence, Finding, NotApplicable
from busbw.doctor.model.machine import Machine
from busbw.doctor.parts.job import variables_of_container

_CONTROL = ("nvidiactl", "nvidia-uvm")


def _nodes(machine: Machine) -> tuple[DeviceNodes, list[str]]:
    """Returns the device nodes and those of GPUs."""
    variables_of_container(machine)
    nodes = machine.fact(DeviceNodes)
    gpus = [name for name in (*nodes.usable, *nodes.denied) if re.fullmatch(r"nvidia\d+", name)]
    if not gpus:
        raise NotApplicable("no NVIDIA GPU in this container")
    return nodes, gpus


def _examine_access(machine: Machine) -> Iterator[Finding]:
    nodes, gpus = _nodes(machine)
    # A container with all of the host's /dev may open only the nodes of its own GPUs.
    lost = gpus if not set(gpus) & set(nodes.usable) else []
    lost = [*lost, *(name for name in _CONTROL if name in nodes.denied)]
    if lost:
        yield Finding(
            severity="broken",
            problem=f"this container may not open /dev/{', /dev/'.join(lost)}, although it has the device nodes",
            evidence=(Evidence(source="access(2)", value="EPERM or EACCES"),),
        )


def _examine_presence(machine: Machine) -> Iterator[Finding]:
    nodes, gpus = _nodes(machine)
    for name in _CONTROL:
        if name not in nodes.usable and name not in nodes.denied:
            yield Finding(
                severity="broken",
                subject=name,
                problem=f"/dev/{name} is missing in this container, although it has GPUs",
                evidence=(Evidence(source="/dev", value=" ".join(gpus)),),
            )


CHECKS = (
    Check(
        name="cgroup-devices",
        area="scheduler",
        reads="access to /dev/nvidia* in a container",
        rule="A container may open the device nodes of GPUs that it has.",
        source="NVIDIA/nvidia-container-toolkit#48",
        cost="CUDA and NVML fail with `Unknown Error`; often since `systemctl daemon-reload` on the host.",
        fix="restart the container; to prevent it, create the links in /dev/char with nvidia-ctk system "
        "create-dev-char-symlinks --create-all, or use CDI",
        examine=_examine_access,
    ),
    Check(
        name="nvidia-caps-devices",
        area="scheduler",
        reads="/dev/nvidiactl and /dev/nvidia-uvm in a container",
        rule="A container with GPUs has both device nodes.",
        source="NVIDIA/nccl#1925",
        cost="CUDA cannot be initialized in this container.",
        fix="start the container with --gpus all or --runtime=nvidia instead of single --device options",
        examine=_examine_presence,
    ),
)
