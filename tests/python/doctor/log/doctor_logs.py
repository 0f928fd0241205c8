"""Logs of NCCL for the tests of `busbw doctor --log`, in the form of NCCL's own messages (src/*.cc of NVIDIA/nccl).

`healthy_log` writes that of a job; the tests change it. issues.toml has messages of jobs with known causes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from busbw.doctor.log_examination import examine_log
from busbw.doctor.nccl_log.reader import read_nccl_log
from busbw.doctor.result import Result
from busbw.system import systems


@dataclass(frozen=True)
class Job:
    """A job on equal nodes, one process for each GPU."""

    nodes: int = 2
    gpus: int = 8
    version: str = "2.27.7+cuda12.9"
    network: str = "IB"
    """Name after "Using network"."""
    link: str = "IB"
    """IB or RoCE."""
    nics: int = 8
    channels: int = 4
    nvls: bool = True
    mnnvl: bool = False
    """True if NVLink connects the nodes."""
    peers: str = "P2P/CUMEM/read"
    """Transport within a node."""
    parts: int = 1
    """Number of communicators of each size: the world, then one for the ranks of each node."""


def healthy_log(job: Job) -> list[str]:
    """Returns the lines that a healthy job prints with NCCL_DEBUG=INFO, in the order of ranks."""
    lines = [f"node0:1000:1000 [0] NCCL INFO NCCL version {job.version}"]
    size = job.nodes * job.gpus
    for rank in range(size):
        lines += [f"{_header(job, rank)}{text}" for text in _setup(job, rank)]
    world = list(range(size))
    lines += communicator_lines(job, world, "0xc3a1")
    if job.parts > 1:
        for node in range(job.nodes):
            ranks = world[node * job.gpus : (node + 1) * job.gpus]
            lines += communicator_lines(job, ranks, f"0xd{node:03x}")
    return lines


def _header(job: Job, rank: int) -> str:
    return f"node{rank // job.gpus}:{1000 + rank}:{3000 + rank} [{rank % job.gpus}] NCCL INFO "


def _bus(device: int) -> str:
    return f"{0x1B + 0x10 * device:x}000"


def _setup(job: Job, rank: int) -> Iterator[str]:
    node = rank // job.gpus
    yield "cudaDriverVersion 12090"
    yield f"Bootstrap: Using eth0:10.0.0.{node + 1}<0>"
    if "ibfabric" in job.network:
        yield "NET/OFI Initializing aws-ofi-nccl 1.16.0"
        yield "NET/OFI Selected Provider is efa (found 32 nics)"
    else:
        yield "NET/Plugin: Could not find: libnccl-net.so. "
    if job.network == "IB":
        ports = " ".join(f"[{index}]mlx5_{index}:1/{job.link}" for index in range(job.nics))
        yield f"NET/IB : Using {ports} [RO]; OOB eth0:10.0.0.{node + 1}<0>"
    if job.network == "Socket":
        yield "NET/IB : No device found."
        yield f"NET/Socket : Using [0]eth0:10.0.0.{node + 1}<0>"
    yield f"Using network {job.network}"
    yield f"DMA-BUF is available on GPU device {rank % job.gpus}"


def communicator_lines(job: Job, ranks: list[int], identity: str) -> list[str]:
    """Returns the lines of a communicator with these ranks of the job."""
    nodes = {rank // job.gpus for rank in ranks}
    counted = 1 if job.mnnvl else len(nodes)
    local = len(ranks) // counted
    lines = []
    for index, rank in enumerate(ranks):
        device = rank % job.gpus
        pointer = f"0x55d0{rank:04x}{identity[-2:]}"
        name = f"comm {pointer} rank {index} nranks {len(ranks)} cudaDev {device} nvmlDev {device} busId {_bus(device)}"
        uuid = "3f1a4ab2c9d0e1f2.8877665544332211" if job.mnnvl else "0.0"
        texts = [
            f"ncclCommInitRankConfig {name} commId {identity} - Init START",
            f"MNNVL busId 0x{_bus(device)} fabric UUID {uuid} cliqueId 0x0 state 3 healthMask 0x0",
            f"Setting affinity for GPU {device} to 0-47,96-143",
            f"NVLS multicast support is {'' if job.nvls else 'not '}available on dev {device} (NVLS_NCHANNELS 16)",
            f"comm {pointer} rank {index} nRanks {len(ranks)} nNodes {counted} localRanks {local} "
            f"localRank {index % local} MNNVL {int(job.mnnvl)}",
            *_connections(job, ranks, index),
            f"Connected all rings, use ring PXN 0 GDR {int(len(nodes) > 1)}",
            f"{job.channels} coll channels, {job.channels} collnet channels, {16 * job.nvls} nvls channels, "
            f"{job.channels} p2p channels, {job.channels} p2p channels per peer",
            f"ncclCommInitRankConfig {name} commId {identity} - Init COMPLETE",
            f"Init timings - ncclCommInitRankConfig: rank {index} nranks {len(ranks)} total 1.31 (kernels 0.20, alloc "
            "0.51, bootstrap 0.12, allgathers 0.01, topo 0.20, graphs 0.01, connections 0.21, rest 0.05)",
        ]
        lines += [f"{_header(job, rank)}{text}" for text in texts]
    return lines


def _connections(job: Job, ranks: list[int], index: int) -> Iterator[str]:
    for step, side in ((1, "send"), (-1, "receive")):
        peer = (index + step) % len(ranks)
        first, second = (index, peer) if step == 1 else (peer, index)
        ends = f"{first}[{ranks[first] % job.gpus}] -> {second}[{ranks[second] % job.gpus}]"
        is_inside = ranks[index] // job.gpus == ranks[peer] // job.gpus
        for channel in range(job.channels):
            if is_inside or job.mnnvl:
                if side == "send":
                    yield f"Channel {channel:02d}/0 : {ends} via {'P2P/MNNVL' if job.mnnvl else job.peers}"
            else:
                gdr = "" if job.network == "Socket" else "/GDRDMA"
                nic = channel % job.nics
                yield f"Channel {channel:02d}/0 : {ends} [{side}] via NET/{job.network}/{nic}{gdr}"


HEALTHY = {
    "dgx-h100": Job(),
    "dgx-h100, one node": Job(nodes=1),
    "dgx-a100": Job(version="2.18.5+cuda12.2", nvls=False),
    "hgx-h100 with RoCE": Job(nodes=4, link="RoCE"),
    "p5 with EFA": Job(network="AWS Libfabric", nics=32),
    "gb200": Job(nodes=4, gpus=4, nics=4, mnnvl=True),
    "communicators of parts": Job(parts=2),
    "two PCIe GPUs": Job(nodes=1, gpus=2, nics=1, nvls=False, network="Socket", peers="P2P/direct"),
}
"""Healthy jobs by name."""


def examine(tmp_path: Path, lines: list[str] | bytes, *, system: str | None = None) -> Result:
    """Returns the result for a log with these lines."""
    path = tmp_path / "job.log"
    path.write_bytes(lines if isinstance(lines, bytes) else "".join(f"{line}\n" for line in lines).encode())
    log = read_nccl_log([path], limit_s=60)
    log.system = systems()[system] if system else None
    return examine_log(log)


def changed(lines: list[str], pattern: str, replacement: str, *, host: str = "") -> list[str]:
    """Returns the lines with a replacement, on one host or on all. At least one line changes."""
    result = [re.sub(pattern, replacement, line) if f"{host}:" in line or not host else line for line in lines]
    assert result != lines
    return result


def with_messages(lines: list[str], *messages: str) -> list[str]:
    """Returns the lines with more messages at the end: text of level INFO, or "FILE:LINE NCCL WARN text"."""
    headers = ("node1:1009:3009 [1] ", "node1:1009:3009 [1] NCCL INFO ")
    return [*lines, *(headers["NCCL WARN" not in message] + message for message in messages)]
