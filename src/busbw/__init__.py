"""busbw measures, verifies and explains the collective communication of GPU machines and clusters."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("busbw")
except PackageNotFoundError:  # read from a source tree that was never installed
    __version__ = "not installed"

__all__ = ["__version__"]
