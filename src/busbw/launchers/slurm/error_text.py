"""What Slurm's commands say when they refuse something, and what can be done about it."""

import re

_REMEDIES = (
    (
        r"container-(image|mounts)",
        "containers in Slurm take Pyxis, which this cluster lacks: leave --container-image out",
    ),
    (r"nvalid partition", "`sinfo -s` lists the partitions: --partition NAME"),
    (r"nvalid account|account.*not permitted", "`sacctmgr show user $USER withassoc` lists yours: --account NAME"),
    (r"nvalid qos|QOS", "`sacctmgr show qos format=name` lists them: --qos NAME"),
    (r"reservation", "`scontrol show reservation` lists them: --reservation NAME"),
    (r"nvalid feature", "`sinfo -o '%N %f'` lists the features: --constraint NAME"),
    (r"generic resource|\bgres\b", "Slurm has no such GPUs in these nodes: --gpus-per-node 0 asks it for none"),
    (r"node name", "`sinfo -N` lists the nodes: --nodelist, --exclude, --hostfile"),
    (r"More processors requested", "ask for fewer --processes-per-node, or for more --nodes"),
    (r"node count|Node count|many nodes", "`sinfo -s` says how many nodes there are: --nodes"),
    (r"time limit", "`sinfo -s` says what the partition allows: --time"),
    (r"emory", "ask for less memory, or for whole nodes: --exclusive"),
    (r"node configuration is not available", "ask for fewer --processes-per-node, --nodes or --gpus-per-node"),
    (r"nvalid MPI type", "`srun --mpi=list` lists those that this cluster has"),
    (r"contact slurm controller|configuration source|Unable to contact", "run it where squeue works"),
    (
        r"unrecognized option|nvalid option",
        "correct --slurm-arg and --srun-arg: this version of Slurm has no such option",
    ),
    (r"Job (credential|has) expired|Invalid job id", "the allocation is over: get a new one"),
    (r"execve|No such file or directory", "name a path that the nodes know: --program-path"),
)


def error_line(text: str) -> str:
    """What a command said on stderr, without its own name in front: the last thing that it complained of."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line or "fatal:" in line or "unrecognized" in line] or lines
    cleaned = [re.sub(r"^(?:\w+: )?(?:error: |fatal: )?", "", line) for line in errors]
    return "; ".join(dict.fromkeys(cleaned[-2:]))


def remedy_for(text: str) -> str:
    """What to do about a complaint of Slurm's."""
    return next(
        (remedy for pattern, remedy in _REMEDIES if re.search(pattern, text)), "see what Slurm's log says of it"
    )


NOT_STARTED = re.compile(
    rb"execve\(\)|srun: (?:error: (?:Unable to|Invalid|.*[Cc]ouldn't)|fatal:|unrecognized)|"
    rb"error: (?:spank|pyxis)|Task launch"
)
"""Lines of stderr which say that a program did not even start."""

NO_BINDING = b"srun: cluster configuration lacks support for cpu binding"
"""What srun says to --cpu-bind=none where nothing is ever bound."""

WAITS = re.compile(
    rb"srun: (?:job \d+ (?:queued|has been)|Job step creation|Step created|Requested (?:partition|nodes))"
)
"""Lines of srun that tell of a wait, and of its end."""
