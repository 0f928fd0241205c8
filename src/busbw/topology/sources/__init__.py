"""Sources of a topology: the driver, the kernel, and saved output of `nvidia-smi`."""
