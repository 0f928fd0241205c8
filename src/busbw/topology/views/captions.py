"""Captions below the picture, and its text alternative for screen readers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from busbw.topology.types import Topology
from busbw.topology.views.device_text import is_down, nvlink_text, pcie_text, rate_text
from busbw.topology.views.nearest import labels_text
from busbw.units import count_text, size_text


def captions(topology: Topology) -> list[str]:
    """Returns the captions: names and links of GPUs, NICs, the meaning of drawn lines, and the notes."""
    lines = []
    if topology.gpus:
        lines.append(f"GPUs: {_counts_text(_gpu_texts(topology))}")
        lines += _link_lines("NVLink", {gpu.label: nvlink_text(gpu.nvlinks) for gpu in topology.gpus})
        lines += _link_lines("PCIe", {gpu.label: pcie_text(gpu.pcie, idles_slower=True) for gpu in topology.gpus})
    else:
        lines.append("GPUs: unknown" if topology.gpus is None else "GPUs: none")
    if topology.nics:
        lines.append(f"NICs: {_counts_text(_nic_texts(topology))}")
        if any(map(is_down, topology.nics)):
            lines.append("A NIC with a dashed outline is down.")
    else:
        lines.append("NICs: unknown" if topology.nics is None else "NICs: none")
    connections = {path.connection or "" for path in topology.paths}
    nvlink_connections = sorted(connection for connection in connections if connection.startswith("NV"))
    if len(nvlink_connections) > 1:
        lines.append(f"An arc joins two GPUs; a thicker arc has more NVLinks: {', '.join(nvlink_connections)}.")
    if any(path.pcie in {"PIX", "PXB"} for path in topology.paths):
        lines.append("A frame contains devices that are connected through PCIe switches only (PIX, PXB).")
    return lines + [f"Note: {note}" for note in topology.notes]


def _link_lines(name: str, texts: Mapping[str, str]) -> Iterator[str]:
    """Yields one line per distinct text, with its GPUs.

    `texts` describes the links of each GPU per direction, by the GPU's label. GPUs with an empty text are omitted.
    """
    for text in dict.fromkeys(filter(None, texts.values())):
        labels = [label for label in texts if texts[label] == text]
        yield f"{name} of {'each GPU' if len(labels) == len(texts) else labels_text(labels)}, each way: {text}"


def description(topology: Topology) -> str:
    """Describes the picture in one sentence."""
    parts = [f"Topology of {topology.source}"]
    if topology.numa_nodes:
        parts.append(count_text(len(topology.numa_nodes), "NUMA node"))
    parts.append(_counts_text(_gpu_texts(topology)) if topology.gpus else "no GPU known")
    if topology.nics:
        parts.append(_counts_text(_nic_texts(topology)))
    # In a path, a GPU comes before a NIC. If the second device is a GPU, so is the first.
    gpu_connections = Counter(path.connection or "unknown" for path in topology.paths if path.to.startswith("GPU"))
    if gpu_connections:
        pairs = ", ".join(f"{connection} ({count})" for connection, count in gpu_connections.items())
        parts.append(f"pairs of GPUs joined by {pairs}")
    return "; ".join(parts) + "."


def _gpu_texts(topology: Topology) -> list[str]:
    return [
        " ".join(filter(None, [gpu.name or "GPU", size_text(gpu.memory_bytes) if gpu.memory_bytes else ""]))
        for gpu in topology.gpus or ()
    ]


def _nic_texts(topology: Topology) -> list[str]:
    return [" ".join(filter(None, [nic.kind or "NIC", rate_text(nic)])) for nic in topology.nics or ()]


def _counts_text(texts: Iterable[str]) -> str:
    """Counts equal texts: "8 x NVIDIA H200, 1 x NVIDIA L4"."""
    return ", ".join(f"{count} x {text}" for text, count in Counter(texts).items())
