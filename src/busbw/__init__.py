"""busbw measures, verifies and explains the collective communication of GPU machines and clusters."""

__version__: str


def __getattr__(name: str) -> str:
    """The version, found when it is asked for: what finds it takes long to import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("busbw")
    except PackageNotFoundError:  # read from a source tree that was never installed
        return "not installed"


__all__ = ["__version__"]
