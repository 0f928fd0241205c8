"""The report: one HTML file that says what was measured, whether it is good, and shows it (docs/report.md).

`build` makes the page from logs, `render` makes the HTML of it.
"""

from busbw.report.build import ReportInput, build
from busbw.report.page import Page
from busbw.report.render import render

__all__ = ["Page", "ReportInput", "build", "render"]
