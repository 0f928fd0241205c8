"""Detects the GPUs, NICs and memory of this machine without changing it. An unreadable property is None."""

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


class NetworkPort(Struct, kw_only=True, frozen=True):
    """One network port that is up or has an unknown state."""

    name: str
    kind: str
    """'InfiniBand', 'RoCE', 'EFA' or 'Ethernet'."""
    gbit: float | None
    """Rate in Gb/s; None if the driver does not report it."""


class DetectedMachine(Struct, kw_only=True, frozen=True):
    """Detected properties of a machine."""

    gpus: tuple[str, ...] | None
    """Names of the GPUs. None if no driver answers, which does not mean that there are no GPUs."""
    ports: tuple[NetworkPort, ...]
    processor: str | None
    processors: int | None
    numa_nodes: int | None
    memory_bytes: int | None


def detect_machine(root: Path = Path("/")) -> DetectedMachine:
    """Detects this machine, or the machine of a test's file tree."""
    cpuinfo = _text(root / "proc/cpuinfo") or ""
    model = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    processors = len(re.findall(r"^processor\s*:", cpuinfo, re.MULTILINE))
    memory = re.search(r"^MemTotal:\s*(\d+) kB", _text(root / "proc/meminfo") or "", re.MULTILINE)
    return DetectedMachine(
        gpus=_gpus(root),
        ports=(*_rdma_ports(root), *_ethernet_ports(root)),
        processor=model[1].strip() if model else None,
        processors=processors or None,
        numa_nodes=len(list(root.glob("sys/devices/system/node/node[0-9]*"))) or None,
        memory_bytes=int(memory[1]) * 1024 if memory else None,
    )


def system_of_machine(machine: DetectedMachine) -> tuple[System, str]:
    """Returns the matching system with the machine's own NICs, and a sentence that explains the choice."""
    if not machine.gpus:
        reason = "no GPU driver answers" if machine.gpus is None else "no GPU found"
        return find("host"), f"{reason}: using the host backend"
    names = ", ".join(f"{number} x {name}" for name, number in Counter(machine.gpus).items())
    system = find_in_text(machine.gpus[0])
    if system is None or len(set(machine.gpus)) > 1:
        return find("host"), f"{names}: unknown system; write a system file and pass it with --system FILE"
    nics = _fastest(machine.ports)
    if nics is None:
        return replace(system, nics=None), f"{names} found; no NIC for collectives found"
    latency = system.nics.latency_us if system.nics else None
    found = Nics(count=nics[0], gbit=nics[1], latency_us=latency, source="/sys of this machine")
    return replace(system, nics=found), f"{names} and {found.text} found"


def _fastest(ports: tuple[NetworkPort, ...]) -> tuple[int, float] | None:
    """Returns the number and rate of the fastest ports. Slower ports serve storage and management."""
    rdma = [port for port in ports if port.kind != "Ethernet"] or list(ports)
    rates = Counter(port.gbit for port in rdma if port.gbit and port.gbit >= MIN_GBIT)
    return (rates[best], best) if (best := max(rates, default=0.0)) else None


def _text(path: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text()
    return None


def _gpus(root: Path) -> tuple[str, ...] | None:
    files = sorted(root.glob("proc/driver/nvidia/gpus/*/information"))
    names = [match[1].strip() for file in files if (match := re.search(r"^Model:\s*(.+)$", _text(file) or "", re.M))]
    if names:
        return tuple(names)
    tool = shutil.which("nvidia-smi") if root == Path("/") else None
    if tool is None:
        return None
    try:
        done = subprocess.run(
            [tool, "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip())


def _rdma_ports(root: Path) -> list[NetworkPort]:
    found = []
    for port in sorted(root.glob("sys/class/infiniband/*/ports/*")):
        if "ACTIVE" not in (_text(port / "state") or "ACTIVE"):
            continue
        rate = re.match(r"([\d.]+) Gb/sec", _text(port / "rate") or "")
        device = port.parent.parent.name
        link = (_text(port / "link_layer") or "").strip()
        kind = "EFA" if re.match(r"efa|rdmap", device) else "RoCE" if link == "Ethernet" else "InfiniBand"
        found.append(NetworkPort(name=device, kind=kind, gbit=float(rate[1]) if rate else None))
    return found


def _ethernet_ports(root: Path) -> list[NetworkPort]:
    found = []
    for interface in sorted(root.glob("sys/class/net/*")):
        if not (interface / "device").exists() or (_text(interface / "operstate") or "up").strip() == "down":
            continue  # virtual interfaces have no device
        if (interface / "device" / "infiniband").exists():
            continue  # counted as an RDMA port
        speed = (_text(interface / "speed") or "").strip()
        gbit = int(speed) / 1000 if speed.isdigit() and int(speed) > 0 else None
        found.append(NetworkPort(name=interface.name, kind="Ethernet", gbit=gbit))
    return found
