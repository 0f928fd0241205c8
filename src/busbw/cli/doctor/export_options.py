"""Files that hold the result of an examination, by their options."""

import time

from busbw.cli.doctor.junit import junit_document
from busbw.cli.doctor.prometheus import prometheus_text
from busbw.cli.options.export_options import Exports
from busbw.doctor.result import Result

EXPORTS: Exports[Result] = {
    "--junit": ("Write JUnit XML to FILE, a case per check.", junit_document),
    "--prometheus": ("Write metrics to FILE, for Prometheus.", lambda result: prometheus_text(result, time.time())),
}
"""Help text and content of each file."""
