"""ADD A LAUNCHER HERE: launchers that start the engine's programs.

A launcher is one module, or a package with private helper files. It has two functions:
- `render` is pure. It turns a `Job` and a target (the module's own class: hosts, partition, namespace) into a
  `LaunchPlan` of commands and files. Tests compare the plan with golden files, and a dry run prints it.
- `submit` executes the plan, usually with `job/processes.py`. It forwards the output of process 0 and returns the exit
  code of the job.
"""

from busbw.launchers.job.job import Command, Job, LaunchCallbacks, LaunchPlan, PrivateFile

LAUNCHERS = {
    "local": "Several processes on this machine.",
    "ssh": "Processes on hosts reached by ssh.",
    "mpirun": "Processes started by Open MPI, MPICH or Intel MPI.",
    "slurm": "A Slurm batch job, or srun; needs no MPI.",
    "kubernetes": "A pod on each node of a Kubernetes cluster, through kubectl.",
}
"""Line in the help of each launcher, by the name of its module here. `busbw.cli.launch.<name>` has its options."""

__all__ = ["LAUNCHERS", "Command", "Job", "LaunchCallbacks", "LaunchPlan", "PrivateFile"]
