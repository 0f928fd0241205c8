"""Detects the GPUs, NICs and memory of this machine from /proc, /sys and nvidia-smi; selects the matching system."""

import re
import shutil
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from busbw.system import Nics, System, find, find_in_text

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
    processor_model: str | None = None
    processor_count: int | None = None
    """Number of logical CPUs."""
    numa_nodes: int | None = None
    memory_bytes: int | None = None


def detect_machine(root: Path = Path("/")) -> DetectedMachine:
    """Detects this machine. Tests pass a `root` with the folders proc and sys of another machine."""
    cpuinfo = _read_text(root / "proc/cpuinfo") or ""
    model = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    processor_count = len(re.findall(r"^processor\s*:", cpuinfo, re.MULTILINE))
    memory = re.search(r"^MemTotal:\s*(\d+) kB", _read_text(root / "proc/meminfo") or "", re.MULTILINE)
    return DetectedMachine(
        gpus=_detect_gpus(root),
        ports=(*_detect_rdma_ports(root), *_detect_ethernet_ports(root)),
        processor_model=model[1].strip() if model else None,
        processor_count=processor_count or None,
        numa_nodes=len(list(root.glob("sys/devices/system/node/node[0-9]*"))) or None,
        memory_bytes=int(memory[1]) * 1024 if memory else None,
    )


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
    nics = Nics(count=count, gbit=gbit, source="/sys of this machine")
    nics = system.nics.with_count_and_rate_of(nics) if system.nics else nics
    return replace(system, nics=nics), f"{names_text} and {nics.text} found"


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


def _read_text(path: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text()
    return None


def _detect_gpus(root: Path) -> tuple[str, ...] | None:
    """Returns the names of the GPUs, from the driver's files, otherwise from nvidia-smi. None if neither answers."""
    files = sorted(root.glob("proc/driver/nvidia/gpus/*/information"))
    models = [re.search(r"^Model:\s*(.+)$", _read_text(file) or "", re.MULTILINE) for file in files]
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


def _detect_rdma_ports(root: Path) -> list[NetworkPort]:
    """Returns the ports of RDMA NICs that are active or have an unknown state."""
    ports = []
    for port in sorted(root.glob("sys/class/infiniband/*/ports/*")):
        state = _read_text(port / "state")
        if state and "ACTIVE" not in state:
            continue
        rate = re.match(r"([\d.]+) Gb/sec", _read_text(port / "rate") or "")
        ports.append(NetworkPort(name=port.parent.parent.name, has_rdma=True, gbit=float(rate[1]) if rate else None))
    return ports


def _detect_ethernet_ports(root: Path) -> list[NetworkPort]:
    """Returns the physical network interfaces without RDMA that are not down."""
    ports = []
    for interface in sorted(root.glob("sys/class/net/*")):
        is_virtual = not (interface / "device").exists()
        is_down = (_read_text(interface / "operstate") or "").strip() == "down"
        is_rdma = (interface / "device" / "infiniband").exists()  # listed by _detect_rdma_ports
        if is_virtual or is_down or is_rdma:
            continue
        speed = (_read_text(interface / "speed") or "").strip()
        gbit = int(speed) / 1000 if speed.isdigit() and int(speed) > 0 else None
        ports.append(NetworkPort(name=interface.name, has_rdma=False, gbit=gbit))
    return ports
