"""ADD A LAUNCHER HERE: ways to start the engine's programs.

A launcher is one module, or a package whose `__init__.py` is that module and whose other files are what it alone needs.
Its `render` is pure: it turns a `Job` and a `Where` (the module's own: hosts, partition, namespace, ...) into the
commands and the files that starting it takes, so it can be tested against golden files and shown by a dry run. Its
`submit` is thin: it runs what was rendered (`processes.py` helps), hands on what process 0 says, and returns the
program's exit code. The command line of each is `busbw.cli.launch.<name>`.
"""

from busbw.launchers import kubernetes, local, mpirun, slurm, ssh
from busbw.launchers.job.job import Command, Job, LaunchCallbacks, LaunchPlan, PrivateFile

LAUNCHERS = {"local": local, "ssh": ssh, "mpirun": mpirun, "slurm": slurm, "kubernetes": kubernetes}
"""Every launcher by name; tests loop over them."""

__all__ = ["LAUNCHERS", "Command", "Job", "LaunchCallbacks", "LaunchPlan", "PrivateFile"]
