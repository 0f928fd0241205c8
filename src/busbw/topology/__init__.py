"""What a machine's GPUs, NICs and CPUs are and how they are joined (docs/topology.md).

`look` asks this machine, `matrix_text` reads what `nvidia-smi topo -m` said of another one, and `table` and `picture`
show it to people.
"""

from busbw.topology.types import DevicePath, Gpu, Nic, Topology

__all__ = ["DevicePath", "Gpu", "Nic", "Topology"]
