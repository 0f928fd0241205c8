"""Parts of a machine that several checks examine: GPUs, NICs, PCIe links, settings, and the job."""
