"""A device's properties in few words, the same for table and picture."""

from collections import Counter

from busbw.topology.types import Gpu, Nic, NvLinks, Pcie
from busbw.units import count_text


def nvlink_text(links: NvLinks | None) -> str:
    """The links of a GPU: "18 x 25 GB/s = 450 GB/s (4.0)"; empty where nothing is said."""
    if links is None:
        return ""
    if links.active == 0:
        return "none up"
    version = f" ({links.version})" if links.version else ""
    if links.link_gbps:
        return f"{links.active} x {links.link_gbps:g} GB/s = {links.active * links.link_gbps:g} GB/s{version}"
    if links.line_gbps:
        return f"{links.active} x {links.line_gbps:g} GB/s line rate{version}"
    return f"{count_text(links.active, 'link')}{version}"


def pcie_text(pcie: Pcie | None, *, idles_slower: bool) -> str:
    """A device's PCIe link: "gen 5 x16, 63 GB/s", and what it runs at where that is less.

    Args:
        pcie: The link.
        sleeps: The device lowers the generation when it is idle, so that a lower one says nothing.
    """
    if pcie is None:
        return ""
    words = []
    if pcie.max_generation or pcie.max_width:
        words.append(_link(pcie.max_generation, pcie.max_width))
        if pcie.max_gbps:
            words[-1] += f", {pcie.max_gbps:.3g} GB/s"
    narrow = bool(pcie.width and pcie.max_width and pcie.width < pcie.max_width)
    slow = bool(pcie.generation and pcie.max_generation and pcie.generation < pcie.max_generation)
    if not words or narrow or (slow and not idles_slower):
        # The generation of a device that is asleep is not what its link can do.
        now = _link(None if idles_slower and words else pcie.generation, pcie.width)
        words.append(f"now {now}" if now else "")
    return "; ".join(filter(None, words))


def _link(generation: int | None, width: int | None) -> str:
    return " ".join(filter(None, [f"gen {generation}" if generation else "", f"x{width}" if width else ""]))


def rate_text(nic: Nic) -> str:
    """The rate of all ports: "400 Gb/s", "2 x 200 Gb/s"."""
    rates = Counter(port.rate_gbit for port in nic.ports if port.rate_gbit)
    return ", ".join(f"{f'{count} x ' if count > 1 else ''}{rate:g} Gb/s" for rate, count in rates.items())


def state_text(nic: Nic) -> str:
    """The state of all ports, each once."""
    return ", ".join(dict.fromkeys(port.state for port in nic.ports if port.state))


def is_down(nic: Nic) -> bool:
    """Whether the kernel says of every port that it carries nothing."""
    states = [(port.state or "").lower() for port in nic.ports]
    return bool(states) and all(state in {"down", "lowerlayerdown", "notpresent", "dormant"} for state in states)


def mig_text(gpu: Gpu) -> str:
    """On, off, or empty where there is no MIG or nothing is said."""
    return {"enabled": "on", "disabled": "off"}.get(gpu.mig_mode or "", "")
