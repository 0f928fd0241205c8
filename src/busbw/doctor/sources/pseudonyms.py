"""Pseudonyms for names and addresses. Equal names have the same pseudonym. Link-local addresses stay link-local."""

from ipaddress import IPv4Address, IPv6Address

_GUID_PREFIX, _HARDWARE_PREFIX = 0x020000FFFE000000, 0x020000000000
"""First addresses of the pseudonyms for GUIDs and Ethernet addresses. They are locally administered."""
_NETWORK, _LINK_LOCAL = 0x0A000000, 0xA9FE0000
"""First pseudonyms for IPv4 addresses: in 10.0.0.0/8, or for link-local ones in 169.254.0.0/16."""
_NETWORK_6 = 0xFD000000 << 32
"""First upper 64 bits of the pseudonyms for IPv6 addresses that are not link-local."""


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
        """Returns another address, which is link-local if this one is. Netmasks and addresses of fixed meaning stay."""
        if address.packed[0] in (0, 127, 255) or address.is_multicast:
            return address
        first = _LINK_LOCAL if address.is_link_local else _NETWORK
        return IPv4Address(first + self.number("IPv4 address", address))

    def ipv6(self, address: IPv6Address) -> IPv6Address:
        """Returns an address of the same class. Its lower 64 bits are a pseudonym, like those of a GUID."""
        if address.ipv4_mapped is not None:
            return IPv6Address((0xFFFF << 32) | int(self.ipv4(address.ipv4_mapped)))
        if int(address) >> 32 == 0 or address.is_multicast:  # such as ::1, and ::0604 as a class of PCI devices
            return address
        network, interface = divmod(int(address), 1 << 64)
        if not address.is_link_local:
            network = _NETWORK_6 + self.number("IPv6 network", network)
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
