"""Rates of NVLink by version and of PCIe by generation and width, with sources."""

NVLINK_GBPS = {"1.0": 20.0, "2.0": 25.0, "2.2": 25.0, "3.0": 25.0, "3.1": 25.0, "4.0": 25.0, "5.0": 50.0}
"""GB/s of one link, one way. NVIDIA's data sheets give the sum of both directions and all links of a GPU:
P100 160 GB/s and 4 links (1.0), V100 300 and 6 (2.0), A100 600 and 12 (3.0), H100 900 and 18 (4.0), B200 1800 and 18
(5.0). 2.2 and 3.1 are revisions of their generation. The rate of any other version is unknown."""

_PCIE_GIGATRANSFERS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""GT/s per lane, from PCI-SIG's base specifications."""


def pcie_gbps(generation: int | None, width: int | None) -> float | None:
    """Returns GB/s of a PCIe link, one way, after line coding: 63.0 for generation 5 with 16 lanes. None if unknown.

    Generations 1 and 2 encode 8 bits as 10, generations 3 to 5 encode 128 as 130. Generation 6 sends units of 256
    bytes, with 242 bytes of data and headers (PCI Express Base Specification).
    """
    if not generation or not width or generation not in _PCIE_GIGATRANSFERS:
        return None
    if generation <= 2:
        payload_share = 8 / 10
    elif generation <= 5:
        payload_share = 128 / 130
    else:
        payload_share = 242 / 256
    return round(_PCIE_GIGATRANSFERS[generation] * payload_share * width / 8, 2)


def pcie_generation(gigatransfers: float) -> int | None:
    """Returns the generation for a lane's rate in GT/s: 5 for 32.0. None if unknown."""
    return next((number for number, rate in _PCIE_GIGATRANSFERS.items() if rate == gigatransfers), None)
