"""Levels of PCIe, from trees drawn by hand."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.topology.sources.pci_paths import PciLocation, bus_id_of, chain_of, pcie_level

SWITCH = "pci0000:15/0000:15:01.0/0000:16:00.0"  # host bridge, root port, upstream port


def place(path: str, numa: int | None = 0) -> PciLocation:
    chain = chain_of(Path("/sys/devices") / path)
    assert chain is not None
    return PciLocation(chain=chain, numa_node=numa)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        # Two ports of one switch.
        (f"{SWITCH}/0000:17:00.0/0000:18:00.0", f"{SWITCH}/0000:17:01.0/0000:19:00.0", "PIX"),
        # Two functions of one card.
        (f"{SWITCH}/0000:17:00.0/0000:18:00.0", f"{SWITCH}/0000:17:00.0/0000:18:00.1", "PIX"),
        # One of them behind a second switch that hangs at the first one.
        (
            f"{SWITCH}/0000:17:00.0/0000:18:00.0",
            f"{SWITCH}/0000:17:01.0/0000:19:00.0/0000:1a:00.0/0000:1b:00.0",
            "PXB",
        ),
        # Two root ports of one host bridge.
        (f"{SWITCH}/0000:17:00.0/0000:18:00.0", "pci0000:15/0000:15:02.0/0000:20:00.0", "PHB"),
        # Devices on the root itself, as virtual machines have them.
        ("pci0000:00/0000:00:05.0", "pci0000:00/0000:00:06.0", "PHB"),
        ("pci0000:15/0000:15:01.0/0000:16:00.0", "pci0000:26/0000:26:01.0/0000:27:00.0", "NODE"),
        # Domains of their own, as Azure's virtual machines have them.
        (
            "LNXSYSTM:00/LNXSYBUS:00/VMBUS:01/1a2b/pci0001:00/0001:00:00.0",
            "LNXSYSTM:00/LNXSYBUS:00/VMBUS:01/3c4d/pci0002:00/0002:00:00.0",
            "NODE",
        ),
        # A device behind a controller of volumes, which has a domain of its own.
        (
            "pci0000:97/0000:97:00.5/pci10002:00/10002:00:01.0/10002:01:00.0",
            "pci0000:97/0000:97:01.0/0000:98:00.0",
            "PHB",
        ),
        # Not a PCI device itself, but on one.
        ("pci0000:00/0000:00:03.0/virtio2", "pci0000:00/0000:00:04.0/virtio3/net/eth1", "PHB"),
    ],
)
def test_a_level_follows_from_the_tree(one: str, other: str, expected: str) -> None:
    assert pcie_level(place(one), place(other), {0, 1}) == expected
    assert pcie_level(place(other), place(one), {0, 1}) == expected


def test_across_host_bridges_the_numa_nodes_decide() -> None:
    one, other = "pci0000:15/0000:15:01.0/0000:16:00.0", "pci0000:96/0000:96:01.0/0000:97:00.0"
    assert pcie_level(place(one, 0), place(other, 1), {0, 1}) == "SYS"
    assert pcie_level(place(one, 1), place(other, 1), {0, 1}) == "NODE"
    assert pcie_level(place(one, None), place(other, 1), {0, 1}) is None
    assert pcie_level(place(one, None), place(other, None), {0}) == "NODE"
    assert pcie_level(place(one, None), place(other, None), None) is None
    assert pcie_level(None, place(other), {0}) is None


@pytest.mark.parametrize("path", ["virtual/net/lo", "platform/soc/1234.ethernet/net/eth0", "pci0000:00"])
def test_what_is_not_on_pcie_has_no_chain(path: str) -> None:
    assert chain_of(Path("/sys/devices") / path) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:18:00.0", "0000:18:00.0"),
        ("0000:C1:00.1", "0000:c1:00.1"),
        ("00010002:01:00.0", "10002:01:00.0"),
        ("18:00", "0000:18:00.0"),
        ("", None),
        ("GPU-0", None),
        ("0000:18:00.9", None),
    ],
)
def test_bus_ids(text: str, expected: str | None) -> None:
    assert bus_id_of(text) == expected


CHAINS = st.lists(st.integers(0, 3), min_size=1, max_size=6).map(
    lambda ports: "/".join(["pci0000:00", *(f"0000:{depth:02x}:{port:02x}.0" for depth, port in enumerate(ports))])
)


@given(CHAINS, CHAINS)
def test_levels_are_the_same_both_ways_and_nearest_to_oneself(one: str, other: str) -> None:
    assert pcie_level(place(one), place(other), {0}) == pcie_level(place(other), place(one), {0})
    assert pcie_level(place(one), place(one), {0}) == "PIX"
