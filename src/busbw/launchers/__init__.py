"""ADD A LAUNCHER HERE: launchers that start the engine's programs.

A launcher is one module, or a package with private helper files. It has two functions:
- `render` is pure. It turns a `Job` and a target (the module's own class: hosts, partition, namespace) into a
  `LaunchPlan` of commands and files. Tests compare the plan with golden files, and a dry run prints it.
- `submit` executes the plan, usually with `job/processes.py`. It forwards the output of process 0 and returns the exit
  code of the job.

The command line of each launcher is `busbw.cli.launch.<name>`.
"""

from busbw.launchers import kubernetes, local, mpirun, slurm, ssh
from busbw.launchers.job.job import Command, Job, LaunchCallbacks, LaunchPlan, PrivateFile

LAUNCHERS = {"local": local, "ssh": ssh, "mpirun": mpirun, "slurm": slurm, "kubernetes": kubernetes}
"""All launchers by name; tests loop over them."""

__all__ = ["LAUNCHERS", "Command", "Job", "LaunchCallbacks", "LaunchPlan", "PrivateFile"]
