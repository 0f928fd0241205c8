"""Captions below the picture, and its text alternative for screen readers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from busbw.topology.types import Topology
from busbw.topology.views.device_text import is_down, nvlink_text, pcie_text, rate_text
from busbw.topology.views.nearest import labels_text
from busbw.units import count_text, size_text


def captions(topology: Topology) -> list[str]:
    """Returns one line per kind of drawn object, and the notes."""
    found = []
    if topology.gpus:
        found.append(f"GPUs: {_counted(_gpu_words(topology))}")
        found += _by_text("NVLink", {gpu.label: nvlink_text(gpu.nvlinks) for gpu in topology.gpus})
        found += _by_text("PCIe", {gpu.label: pcie_text(gpu.pcie, idles_slower=True) for gpu in topology.gpus})
    else:
        found.append("GPUs: unknown" if topology.gpus is None else "GPUs: none")
    if topology.nics:
        found.append(f"NICs: {_counted(_nic_words(topology))}")
        if any(map(is_down, topology.nics)):
            found.append("A NIC with a dashed outline is down.")
    else:
        found.append("NICs: unknown" if topology.nics is None else "NICs: none")
    counts = {path.connection for path in topology.paths if (path.connection or "").startswith("NV")}
    if len(counts) > 1:
        found.append(
            f"An arc joins two GPUs; a thicker arc has more NVLinks: {', '.join(sorted(filter(None, counts)))}."
        )
    if any(path.pcie in {"PIX", "PXB"} for path in topology.paths):
        found.append("A frame contains devices that are connected through PCIe switches only (PIX, PXB).")
    return found + [f"Note: {note}" for note in topology.notes]


def _by_text(name: str, texts: Mapping[str, str]) -> Iterator[str]:
    """Yields one line per distinct text, with its GPUs."""
    for text in dict.fromkeys(filter(None, texts.values())):
        labels = [label for label, own in texts.items() if own == text]
        yield f"{name} of {'each GPU' if len(labels) == len(texts) else labels_text(labels)}, each way: {text}"


def description(topology: Topology) -> str:
    """Describes the picture in one sentence."""
    parts = [f"Topology of {topology.source}"]
    if topology.host and topology.host.numa_nodes:
        parts.append(count_text(len(topology.host.numa_nodes), "NUMA node"))
    parts.append(_counted(_gpu_words(topology)) if topology.gpus else "no GPU known")
    if topology.nics:
        parts.append(_counted(_nic_words(topology)))
    joined = Counter(path.connection or "unknown" for path in topology.paths if path.to.startswith("GPU"))
    if joined:
        pairs = ", ".join(f"{word} ({count})" for word, count in joined.items())
        parts.append(f"pairs of GPUs joined by {pairs}")
    return "; ".join(parts) + "."


def _gpu_words(topology: Topology) -> list[str]:
    return [
        " ".join(filter(None, [gpu.name or "GPU", size_text(gpu.memory_bytes) if gpu.memory_bytes else ""]))
        for gpu in topology.gpus or ()
    ]


def _nic_words(topology: Topology) -> list[str]:
    return [" ".join(filter(None, [nic.kind or "NIC", rate_text(nic)])) for nic in topology.nics or ()]


def _counted(words: Iterable[str]) -> str:
    return ", ".join(f"{count} x {word}" for word, count in Counter(words).items())
