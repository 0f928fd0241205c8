"""ADD A LAUNCHER HERE: ways to start the engine's programs.

A launcher is one module with two functions. `render` is pure: it turns a `Job` into the command line and the files that
starting it takes, so it can be tested against golden files and shown by a dry run. `submit` is thin: it runs what was
rendered and waits.
"""

from busbw.launchers import local
from busbw.launchers.job import Job, Rendered, Watch

LAUNCHERS = {"local": local}
"""Every launcher by name; tests loop over them."""

__all__ = ["LAUNCHERS", "Job", "Rendered", "Watch"]
