"""Files that hold the result of a search, by their options."""

import time

from busbw.cli.find.junit import junit_document
from busbw.cli.find.prometheus import prometheus_text
from busbw.cli.find.summary import FindSummary
from busbw.cli.options.export_options import Exports

EXPORTS: Exports[FindSummary] = {
    "--write-hostfile": (
        "Write the nodes without a finding to FILE, one per line.",
        lambda summary: "".join(f"{name}\n" for name in summary.unsuspected_nodes).encode(),
    ),
    "--junit": ("Write JUnit XML to FILE, a case per kind of part.", junit_document),
    "--prometheus": ("Write metrics to FILE, for Prometheus.", lambda summary: prometheus_text(summary, time.time())),
}
"""Help text and content of each file."""
