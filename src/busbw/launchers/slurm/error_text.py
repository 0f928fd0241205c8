"""Recognizes error messages of Slurm's commands and assigns remedies."""

import re

# Patterns of Slurm's messages, each with a remedy. The first match applies, so specific patterns precede general ones.
_REMEDIES = (
    (
        r"container-(image|mounts)",
        "remove --container-image: it needs Pyxis, which this cluster lacks",
    ),
    (r"[Ii]nvalid partition", "set --partition to a name from `sinfo -s`"),
    (r"[Ii]nvalid account|account.*not permitted", "set --account to a name from `sacctmgr show user $USER withassoc`"),
    (r"[Ii]nvalid qos|QOS", "set --qos to a name from `sacctmgr show qos format=name`"),
    (r"reservation", "set --reservation to a name from `scontrol show reservation`"),
    (r"[Ii]nvalid feature", "set --constraint to a feature from `sinfo -o '%N %f'`"),
    (r"generic resource|\bgres\b", "set --gpus-per-node 0: Slurm knows no such GPUs in these nodes"),
    (r"node name", "correct --nodelist, --exclude or --hostfile; `sinfo -N` lists the nodes"),
    (r"More processors requested", "use fewer --processes-per-node or more --nodes"),
    (r"node count|Node count|many nodes", "set --nodes to at most the node count in `sinfo -s`"),
    (r"time limit", "set --time to at most the partition's limit in `sinfo -s`"),
    (r"[Mm]emory", "request less memory, or whole nodes with --exclusive"),
    (r"node configuration is not available", "use fewer --processes-per-node, --nodes or --gpus-per-node"),
    (r"[Ii]nvalid MPI type", "set --mpi to a type from `srun --mpi=list`"),
    (r"contact slurm controller|configuration source|Unable to contact", "launch on a machine where squeue works"),
    (
        r"unrecognized option|[Ii]nvalid option",
        "remove the option from --slurm-arg or --srun-arg: this Slurm version lacks it",
    ),
    (r"Job (credential|has) expired|Invalid job id", "request a new allocation: this one has ended"),
    (r"execve|No such file or directory", "set --program-path to a path on the nodes"),
)


def last_errors(text: str) -> str:
    """Returns the last two error messages of a command, without a prefix such as "srun: error: ".

    Args:
        text: The command's stderr. If it has no error message, its last two lines are returned.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line or "fatal:" in line or "unrecognized" in line] or lines
    messages = [re.sub(r"^(?:\w+: )?(?:error: |fatal: )?", "", line) for line in errors]
    return "; ".join(dict.fromkeys(messages[-2:]))


def remedy_for(text: str) -> str:
    """Returns the remedy for an error message of Slurm, or the advice to read Slurm's log."""
    return next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, text)), "see Slurm's log for details")


NOT_STARTED = re.compile(
    rb"execve\(\)|srun: (?:error: (?:Unable to|Invalid|.*[Cc]ouldn't)|fatal:|unrecognized)|"
    rb"error: (?:spank|pyxis)|Task launch"
)
"""Lines of stderr that show that a program did not start: "slurmstepd: error: execve(): prog: Permission denied"."""

NODE_NOT_STARTED = re.compile(r"Task launch for .*failed on node (\S+): (.+)")
"""Line of stderr that names a node on which no task started, with the reason.

Example: "srun: error: Task launch for StepId=7.0 failed on node n2: Communication connection failure"."""

NO_BINDING = b"srun: cluster configuration lacks support for cpu binding"
"""Message of srun about --cpu-bind=none on clusters without CPU binding."""

WAITS = re.compile(
    rb"srun: (?:job \d+ (?:queued|has been)|Job step creation|Step created|Requested (?:partition|nodes))"
)
"""Lines of srun about the beginning or the end of a wait."""
