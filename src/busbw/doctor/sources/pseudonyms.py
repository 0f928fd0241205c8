"""Pseudonyms for names and addresses. Equal names have the same pseudonym; an address keeps its class."""

from ipaddress import IPv4Address, IPv6Address

_GUID_PREFIX, _HARDWARE_PREFIX = 0x020000FFFE000000, 0x020000000000
"""First addresses of the pseudonyms for GUIDs and Ethernet addresses. They are locally administered."""
_PRIVATE_NETWORK, _PUBLIC_NETWORK, _LINK_LOCAL_NETWORK = 0x0A0000, 0x0B0000, 0xA9FE00
"""Upper 24 bits of the pseudonyms for IPv4 addresses: 10.0.0, 11.0.0 and 169.254.0."""
_PRIVATE_NETWORK_6, _PUBLIC_NETWORK_6 = 0xFD000000 << 32, 0x20010DB8 << 32
"""Upper 64 bits of the pseudonyms for IPv6 addresses: fd00:: and 2001:db8::."""


class Pseudonyms:
    """Numbers the names of each kind in the order of appearance, from 1."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[object, int]] = {}

    def number(self, kind: str, name: object) -> int:
        """Returns the number of a name."""
        numbers = self._numbers.setdefault(kind, {})
        return numbers.setdefault(name, len(numbers) + 1)

    def name(self, kind: str, name: str) -> str:
        """Returns the pseudonym of a name: "host-1"."""
        return f"{kind}-{self.number(kind, name)}"

    def ipv4(self, address: IPv4Address) -> IPv4Address:
        """Returns an address of the same class: private, public or link-local.

        Addresses of one network of 24 bits stay in one network. Netmasks, and addresses with a fixed meaning, stay.
        """
        if address.packed[0] in (0, 127, 255) or address.is_multicast:
            return address
        network, host = divmod(int(address), 256)
        if address.is_link_local:
            first = _LINK_LOCAL_NETWORK
        else:
            first = _PUBLIC_NETWORK if address.is_global else _PRIVATE_NETWORK
        if host not in (0, 255):
            host = self.number(f"host of {network}", host)
        return IPv4Address((first + self.number(f"network of {first}", network)) * 256 + host)

    def ipv6(self, address: IPv6Address) -> IPv6Address:
        """Returns an address of the same class. Its lower 64 bits are a pseudonym, like those of a GUID."""
        if address.ipv4_mapped is not None:
            return IPv6Address((0xFFFF << 32) | int(self.ipv4(address.ipv4_mapped)))
        if int(address) >> 32 == 0 or address.is_multicast:  # such as ::1, and ::0604 as a class of PCI devices
            return address
        network, interface = divmod(int(address), 1 << 64)
        if not address.is_link_local:
            first = _PUBLIC_NETWORK_6 if address.is_global else _PRIVATE_NETWORK_6
            network = first + self.number(f"network of {first}", network)
        return IPv6Address((network << 64) | self.guid(interface))

    def guid(self, value: int) -> int:
        """Returns the pseudonym of a GUID of 64 bits."""
        if value in (0, (1 << 64) - 1):  # no GUID, and all ones
            return value
        return _GUID_PREFIX + self.number("GUID", value)

    def hardware(self, value: bytes) -> bytes:
        """Returns the pseudonym of an address of Ethernet (6 bytes), a GUID (8), or IP over InfiniBand (20)."""
        if len(value) == 8:
            return self.guid(int.from_bytes(value, "big")).to_bytes(8, "big")
        if len(value) == 20:  # number of a queue pair, and a GID
            return value[:4] + self.ipv6(IPv6Address(value[4:])).packed
        is_group = value[0] & 1 == 1
        if is_group or not any(value):
            return value
        return (_HARDWARE_PREFIX + self.number("MAC", value)).to_bytes(6, "big")
