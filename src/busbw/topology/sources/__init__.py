"""Where a topology is read from: the driver, the kernel, or what was saved of `nvidia-smi`."""
