"""Short texts for properties of devices."""

from collections import Counter

from busbw.topology.types import Gpu, Nic, NvLinks, Pcie
from busbw.units import count_text


def nvlink_text(links: NvLinks | None) -> str:
    """Describes the NVLinks of a GPU: "18 x 25 GB/s = 450 GB/s (4.0)". Empty if unknown."""
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
    """Describes a PCIe link: "gen 5 x16, 63 GB/s", with the current speed if it is lower.

    Args:
        pcie: The link.
        idles_slower: True if the device lowers its generation when idle. The current generation is then not shown,
            unless the maximum is unknown.
    """
    if pcie is None:
        return ""
    maximum = _pcie_link_text(pcie.max_generation, pcie.max_width)
    if maximum and pcie.max_gbps:
        maximum += f", {pcie.max_gbps:.3g} GB/s"
    is_narrower = bool(pcie.width and pcie.max_width and pcie.width < pcie.max_width)
    is_slower = bool(pcie.generation and pcie.max_generation and pcie.generation < pcie.max_generation)
    hides_generation = idles_slower and bool(maximum)
    current = ""
    if not maximum or is_narrower or (is_slower and not hides_generation):
        current = _pcie_link_text(None if hides_generation else pcie.generation, pcie.width)
    current_text = f"now {current}" if current else ""
    return "; ".join(filter(None, [maximum, current_text]))


def _pcie_link_text(generation: int | None, width: int | None) -> str:
    generation_text = f"gen {generation}" if generation else ""
    width_text = f"x{width}" if width else ""
    return " ".join(filter(None, [generation_text, width_text]))


def rate_text(nic: Nic) -> str:
    """Describes the rates of all ports: "400 Gb/s", "2 x 200 Gb/s"."""
    port_counts = Counter(port.rate_gbit for port in nic.ports if port.rate_gbit)
    return ", ".join(
        f"{count} x {rate:g} Gb/s" if count > 1 else f"{rate:g} Gb/s" for rate, count in port_counts.items()
    )


def state_text(nic: Nic) -> str:
    """Lists the distinct states of all ports."""
    return ", ".join(dict.fromkeys(port.state for port in nic.ports if port.state))


def is_down(nic: Nic) -> bool:
    """True if the NIC has ports and the kernel reports every one as down."""
    states = [(port.state or "").lower() for port in nic.ports]
    return bool(states) and all(state in {"down", "lowerlayerdown", "notpresent", "dormant"} for state in states)


def mig_text(gpu: Gpu) -> str:
    """Returns "on" or "off"; empty if the GPU has no MIG or the mode is unknown."""
    return {"enabled": "on", "disabled": "off"}.get(gpu.mig_mode or "", "")
