"""Saved outputs of `nvidia-smi topo -m` from several machines."""

H200_X4 = "\n".join(
    [
        "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m",
        "GPU0\t X \tNV18\tNV18\tNV18\t0-63\t0\t\tN/A",
        "GPU1\tNV18\t X \tNV18\tNV18\t0-63\t0\t\tN/A",
        "GPU2\tNV18\tNV18\t X \tNV18\t0-63\t0\t\tN/A",
        "GPU3\tNV18\tNV18\tNV18\t X \t0-63\t0\t\tN/A",
        "",
        "Legend:",
        "index, name, pcie.link.gen.max, pcie.link.width.max",
        *(f"{number}, NVIDIA H200, 5, 16" for number in range(4)),
        "GPU 0: NVIDIA H200 (UUID: GPU-0)",
        *(f"\t Link {link}: 26.562 GB/s" for link in range(18)),
    ]
)

V100_X2_WITHOUT_TABS = """Now look at the links.
| NVIDIA-SMI 570.133.20 Driver Version: 570.133.20 CUDA Version: 12.8 |
| 0 Tesla V100-PCIE-16GB Off | 00000001:00:00.0 Off | Off |
| N/A 29C P0 24W / 250W | 0MiB / 16384MiB | 0% Default |
| | | N/A |
| 1 Tesla V100-PCIE-16GB Off | 00000002:00:00.0 Off | Off |
| N/A 32C P0 28W / 250W | 0MiB / 16384MiB | 0% Default |
| | | N/A |
GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID
GPU0 X NODE 0-11 0 N/A
GPU1 NODE X 0-11 0 N/A
Legend:
X = Self
GPU0 / GPU1: these are the two GPUs.
# Rank 0 Group 0 Pid 55353 on node7 device 0 [0x00] Tesla V100-PCIE-16GB
# Rank 1 Group 0 Pid 55353 on node7 device 1 [0x00] Tesla V100-PCIE-16GB
"""

WITH_NICS = """
        GPU0    GPU1    NIC0    NIC1    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV4     PXB     SYS     0-15,32-47      0-1             N/A
GPU1    NV4      X      SYS     PHB     16-31           1               4
NIC0    PXB     SYS      X      SYS
NIC1    SYS     PHB     SYS      X

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_bond_1
"""
