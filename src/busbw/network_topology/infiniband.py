"""Output of `ibnetdiscover`: the only format with a leaf switch per NIC.

A paragraph describes a switch, with a line per port. If the peer is a NIC, its description is a host and a device.
"""

import re
from collections import Counter
from collections.abc import Iterator

from busbw.network_topology.leaves import Attachment

_SWITCH = re.compile(r'^Switch\s+\d+\s+"(?P<guid>[^"]+)"\s*#\s*"(?P<description>[^"]*)"', re.MULTILINE)
"""First line of a switch: Switch 65 "S-00000000000000a1" # "MF0;leaf-r0:MQM/U1" enhanced port 0."""
_NIC_PORT = re.compile(r'\[\d+\][^"]*"H-[^"]+"\[.*#\s*"(?P<node>\S+) (?P<nic>\S+)"')
"""Line of a port with a NIC: [1] "H-00000000000000c1"[1](c1) # "node1 mlx5_0" lid 21."""


def parse_ibnetdiscover(text: str) -> Iterator[Attachment]:
    """Yields an attachment for each NIC at a switch."""
    counts = Counter(_switch_name(header["description"]) for header in _SWITCH.finditer(text))
    switch = ""  # switch of the current paragraph. Empty: the paragraph describes something else
    for line in text.splitlines():
        if header := _SWITCH.match(line):
            name = _switch_name(header["description"])
            # Unmanaged switches have the name of their model, so several switches can have one name.
            switch = name if counts[name] == 1 else f"{name} {header['guid']}"
        elif not line.startswith("["):
            switch = ""
        elif switch and (port := _NIC_PORT.match(line)):
            yield Attachment(port["node"], port["nic"], switch)


def _switch_name(description: str) -> str:
    """Returns the name in a description such as "MF0;leaf-r0:MQM/U1", otherwise the whole description."""
    match = re.fullmatch(r"[^;:]+;([^;:]+):[^;:]+", description)
    return match[1] if match else description
