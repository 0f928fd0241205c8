"""The report: one HTML file with verdicts, figures and plots of one or more logs (docs/guides/report.md).

`build` makes a page from logs, `build_trace` from a trace, and `search.build_search` from a search, which is slow to
import. `render` makes HTML from a page.
"""

from busbw.report.build import ReportInput, build
from busbw.report.page import Page
from busbw.report.render import render
from busbw.report.trace import build_trace

__all__ = ["Page", "ReportInput", "build", "build_trace", "render"]
