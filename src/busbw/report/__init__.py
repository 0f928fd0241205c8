"""The report: one HTML file with verdicts, figures and plots of one or more logs (docs/guides/report.md).

`build` makes a page from logs, `build_search` from a search, and `build_trace` from a trace. `render` makes HTML from
a page.
"""

from busbw.report.build import ReportInput, build
from busbw.report.page import Page
from busbw.report.render import render
from busbw.report.search import build_search
from busbw.report.trace import build_trace

__all__ = ["Page", "ReportInput", "build", "build_search", "build_trace", "render"]
