"""Python API: `busbw.load` reads logs and gives rows, verdicts, expectations and data frames.

docs/reference/python.md describes it.
"""

from busbw.api.loading import load
from busbw.api.log_collection import LogCollection
from busbw.errors import BusbwError, UsageError
from busbw.expect import Estimate, Expectation, ExpectedRange
from busbw.exporters.flat import FlatRow
from busbw.judge import BandVerdict, JudgedConfiguration, JudgedFigure, Verdict
from busbw.logs.log import Figure, Log, Row, Table
from busbw.reference import Reference
from busbw.store import Filter
from busbw.system import Nics, System

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
    "load",
]
