"""busbw measures, verifies and explains the collective communication of GPU machines and clusters.

`load` reads logs for Python programs; docs/reference/python.md describes it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from busbw.api import (
        BandVerdict,
        BusbwError,
        Estimate,
        Expectation,
        ExpectedRange,
        Figure,
        Filter,
        FlatRow,
        JudgedConfiguration,
        JudgedFigure,
        Log,
        LogCollection,
        Nics,
        Reference,
        Row,
        System,
        Table,
        UsageError,
        Verdict,
        load,
    )

    __version__: str
else:

    def __getattr__(name: str) -> object:
        """Returns the version or a name of the API on first access, because their modules are slow to import."""
        if name == "__version__":
            return _version()
        if name in __all__:
            from importlib import import_module

            return getattr(import_module("busbw.api"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("busbw")
    except PackageNotFoundError:  # imported from a source tree that is not installed
        return "not installed"


__all__ = [
    "BandVerdict",
    "BusbwError",
    "Estimate",
    "Expectation",
    "ExpectedRange",
    "Figure",
    "Filter",
    "FlatRow",
    "JudgedConfiguration",
    "JudgedFigure",
    "Log",
    "LogCollection",
    "Nics",
    "Reference",
    "Row",
    "System",
    "Table",
    "UsageError",
    "Verdict",
    "__version__",
    "load",
]
