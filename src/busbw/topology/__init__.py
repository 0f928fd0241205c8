"""GPUs, NICs and CPUs of a machine, and the links between them, as `busbw topo` shows them (docs/guides/topology.md).

`sources.discovery` queries this machine, `sources.matrix_text` reads saved output of `nvidia-smi topo -m`, and
`views.table` displays a topology.
"""

from busbw.topology.types import DevicePath, Gpu, Nic, Topology

__all__ = ["DevicePath", "Gpu", "Nic", "Topology"]
