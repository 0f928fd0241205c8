"""Detects the GPUs, NICs and memory of this machine from /proc, /sys and nvidia-smi; selects the matching system."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from busbw.system import Nics, System, find, find_in_text
from busbw.topology.sources.nics import nics
from busbw.topology.sources.sysfs import read_host, read_text
from busbw.topology.types import Host

MIN_GBIT = 10
"""Minimum rate of a port for collectives. Slower ports are for management."""

_NVIDIA_SMI_LIMIT_S = 20
"""Time limit for nvidia-smi, which takes seconds if the driver must wake the GPUs."""


class NetworkPort(Struct, kw_only=True, frozen=True):
    """One network port that is up or has an unknown state."""

    name: str
    has_rdma: bool
    gbit: float | None
    """Rate in Gb/s; None if the driver does not report it."""


class DetectedMachine(Struct, kw_only=True, frozen=True):
    """Detected properties of a machine. A property that cannot be read is None."""

    gpus: tuple[str, ...] | None
    """Names of the GPUs. None if no driver answers; the machine may still have GPUs."""
    ports: tuple[NetworkPort, ...]
    host: Host = Host()
    """Processor, memory and NUMA nodes."""


def detect_machine(root: Path = Path("/")) -> DetectedMachine:
    """Detects this machine. Tests pass a `root` with the folders proc and sys of another machine."""
    return DetectedMachine(gpus=_detect_gpus(root), ports=tuple(_detect_ports(root)), host=read_host(root))


def system_of_machine(machine: DetectedMachine) -> tuple[System, str]:
    """Returns the matching system with the machine's own NICs, and a text that explains the choice."""
    if not machine.gpus:
        reason = "no GPU driver answers" if machine.gpus is None else "no GPU found"
        return find("host"), f"{reason}: using the host backend"
    names_text = ", ".join(f"{count} x {name}" for name, count in Counter(machine.gpus).items())
    system = find_in_text(machine.gpus[0])
    if system is None or len(set(machine.gpus)) > 1:
        return find("host"), f"{names_text}: unknown system; write a system file and pass it with --system FILE"
    fastest_ports = _count_fastest_ports(machine.ports)
    if fastest_ports is None:
        return replace(system, nics=None), f"{names_text} found; no NIC for collectives found"
    count, gbit = fastest_ports
    found_nics = Nics(count=count, gbit=gbit, source="/sys of this machine")
    if system.nics:
        found_nics = system.nics.with_count_and_rate_of(found_nics)
    return replace(system, nics=found_nics), f"{names_text} and {found_nics.text} found"


def _count_fastest_ports(ports: tuple[NetworkPort, ...]) -> tuple[int, float] | None:
    """Returns the number of ports with the highest rate, and the rate in Gb/s. None if no port reaches MIN_GBIT.

    RDMA ports are preferred. Slower ports of a machine serve storage and management.
    """
    candidates = [port for port in ports if port.has_rdma] or list(ports)
    count_by_gbit = Counter(port.gbit for port in candidates if port.gbit and port.gbit >= MIN_GBIT)
    if not count_by_gbit:
        return None
    max_gbit = max(count_by_gbit)
    return count_by_gbit[max_gbit], max_gbit


def _detect_ports(root: Path) -> Iterator[NetworkPort]:
    """Yields the ports of NICs that are up or have an unknown state."""
    for nic, _ in nics(root, virtual_too=False):
        has_rdma = nic.kind != "Ethernet"
        for port in nic.ports:
            may_be_up = port.state is None or ("ACTIVE" in port.state if has_rdma else port.state != "down")
            if may_be_up:
                yield NetworkPort(name=nic.name or nic.label, has_rdma=has_rdma, gbit=port.rate_gbit)


def _detect_gpus(root: Path) -> tuple[str, ...] | None:
    """Returns the names of the GPUs, from the driver's files, otherwise from nvidia-smi. None if neither answers."""
    files = sorted(root.glob("proc/driver/nvidia/gpus/*/information"))
    models = [re.search(r"^Model:\s*(.+)$", read_text(file), re.MULTILINE) for file in files]
    names = tuple(model[1].strip() for model in models if model)
    if names:
        return names
    nvidia_smi = shutil.which("nvidia-smi") if root == Path("/") else None
    if nvidia_smi is None:
        return None
    try:
        result = subprocess.run(
            [nvidia_smi, "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=_NVIDIA_SMI_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(line.strip() for line in result.stdout.splitlines() if line.strip())
