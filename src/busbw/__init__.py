"""busbw measures, verifies and explains the collective communication of GPU machines and clusters."""

__version__: str


def __getattr__(name: str) -> str:
    """Returns the version on first access, because `importlib.metadata` is slow to import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("busbw")
    except PackageNotFoundError:  # imported from a source tree that is not installed
        return "not installed"


__all__ = ["__version__"]
