"""Command lines and batch scripts of Slurm: pure functions of a job and of where it is to run."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from busbw.engine import collective_name
from busbw.launchers.job import shell
from busbw.launchers.job.hosts import HostSlots, total
from busbw.launchers.job.job import PLACE, Job
from busbw.units import count_text

_NAME_OF_STEP = "step-{step}"
BATCH_LOG = "batch.log"
"""What the batch script itself says; Slurm makes it before the script begins."""
_RECORDS_ALONE = '[ "$SLURM_PROCID" = 0 ] || exec 1>&2'
"""srun merges the stdout of all processes, in pieces of about 1 KiB: what others print there would cut the records of
process 0 apart."""
_SHELL = ("sh", "-c", f'trap : INT TERM HUP; {_RECORDS_ALONE}; "$@"; exit $?', "sh")
"""Around each process: it makes an exit code of a signal. When a task itself ends by one, srun ends the step at once
and drops what the others still have to say (seen with Slurm 22.05)."""
_SHELL_UNDER_SRUN = (
    *("sh", "-c"),
    "; ".join(
        [
            "trap '' USR1 USR2",
            _RECORDS_ALONE,
            *shell.run_forwarding_signals('"$@"', {"USR1": "INT", "USR2": "KILL"}, outlived="INT TERM HUP"),
            "exit $code",
        ]
    ),
    "sh",
)
"""The same where srun is run from here. What srun hands to its tasks without asking the controller is SIGUSR1, an
interrupt for the program, and SIGUSR2, its end. As a shell starts what it does not wait for at once, the program begins
with SIGINT and SIGQUIT ignored, until it heeds them itself, and with /dev/null as its stdin."""
_SET_BY_HOSTFILE = {"--nodes", "--ntasks-per-node", "--nodelist"}
EXPORT = "--export=ALL"
"""Hands the environment on, the token in it: a site may have told Slurm not to (SBATCH_EXPORT, SLURM_EXPORT_ENV)."""
OF_THE_OUTPUT = ("SLURM_LABELIO", "SLURM_STDOUTMODE", "SLURM_STDERRMODE")
"""Variables by which srun would do something else with the output than we know of."""


@dataclass(frozen=True)
class SlurmTarget:
    """How a job is run in Slurm."""

    folder: Path | None = None
    """Where the files of a batch job lie, seen by this machine and by the nodes; None: srun itself is run from here."""
    standalone: bool = False
    """A batch script that is submitted by hand; it makes its folder beside itself."""
    in_allocation: bool = False
    """Whether this process runs within the job that srun is to use."""
    in_step: bool = False
    """Whether it is a task of a step itself, whose resources it shares with the new one."""
    job_options: tuple[str, ...] = ()
    """Of sbatch or, without a batch job, of srun: partition, account, ..."""
    step_options: tuple[str, ...] = ()
    """Of srun."""
    gpus_per_node: int | None = None
    exclusive: bool = True
    mpi: str = "none"
    container_image: str = ""
    container_mounts: str = ""
    hosts: tuple[HostSlots, ...] = ()
    """The nodes in the order of the ranks, with their processes; empty: Slurm chooses."""
    order: tuple[str, ...] = ()
    """Names of nodes: those that Slurm chooses are used in this order. Empty: in Slurm's."""
    port: int = 0
    """Where process 0 listens when the order is ours, in which Slurm does not say who is first."""
    scratch: Path = Path("/tmp")
    """Where srun, run from here, may find a file that it needs."""
    steps: int = 1

    @property
    def has_order(self) -> bool:
        """Whether ranks go to the nodes in an order of ours."""
        return bool(self.hosts or self.order)


def collective_of(job: Job) -> str:
    """What its program measures."""
    return collective_name(Path(job.program).name)


def option_name(option: str) -> str:
    """--nodes of --nodes=2."""
    return option.partition("=")[0]


def merged(options: Iterable[str]) -> tuple[str, ...]:
    """Each option once, where it was given first, as it was given last."""
    found: dict[str, str] = {}
    for option in options:
        found[option_name(option)] = option
    return tuple(found.values())


def sbatch(job: Job, where: SlurmTarget, script: Path) -> tuple[str, ...]:
    """The command that submits a script. A site's SBATCH_... go before the script's own lines, but not before this."""
    return ("sbatch", "--parsable", *merged([EXPORT, *_of_the_batch_job(job, where)]), str(script))


def _of_the_batch_job(job: Job, where: SlurmTarget) -> tuple[str, ...]:
    """All that sbatch is told."""
    log = "busbw-%j.log" if where.standalone else f"{where.folder}/{BATCH_LOG}"
    # An interrupted node must not start the measurement once more, unseen.
    return (*job_options(job, where), "--no-requeue", f"--output={log}")


def _export_of_the_job(where: SlurmTarget) -> tuple[str, ...]:
    """What the user says of the job's environment."""
    return tuple(option for option in where.job_options if option_name(option) == "--export")


def node_options(job: Job, where: SlurmTarget) -> tuple[str, ...]:
    """How many nodes and processes."""
    if where.hosts:
        names = ",".join(host.name for host in where.hosts)
        counts = {host.processes for host in where.hosts}
        even = (f"--ntasks-per-node={counts.pop()}",) if len(counts) == 1 else ()
        return (f"--nodes={len(where.hosts)}", f"--ntasks={total(where.hosts)}", *even, f"--nodelist={names}")
    return (f"--nodes={job.nodes}", f"--ntasks={job.processes}", f"--ntasks-per-node={job.processes_per_node}")


def job_options(job: Job, where: SlurmTarget) -> tuple[str, ...]:
    """What the job asks Slurm for; what the user says goes before what the machine type wants, and both before ours."""
    system = [one.option for one in job.system.slurm_job] if job.system else []
    gpus = [f"--gpus-per-node={where.gpus_per_node}"] if where.gpus_per_node else []
    alone = ["--exclusive"] if where.exclusive else []
    wanted = [f"--job-name={job.name}", *node_options(job, where), *alone, *gpus, *system]
    if not where.exclusive:
        wanted = [option for option in wanted if option_name(option) != "--exclusive"]
    return merged([*wanted, *where.job_options])


def step_options(job: Job, where: SlurmTarget) -> tuple[str, ...]:
    """What a step is told, whoever starts it."""
    system = [one.option for one in job.system.slurm_step] if job.system else []
    placement = ["--distribution=arbitrary"] if where.has_order else []
    container = []
    if where.container_image:
        container.append(f"--container-image={where.container_image}")
        container += [f"--container-mounts={where.container_mounts}"] if where.container_mounts else []
    # Ranks that have lost one end by themselves and say which; Slurm must not kill them first, but need not wait long.
    wanted = [f"--mpi={where.mpi}", EXPORT, "--kill-on-bad-exit=0", "--wait=30", "--cpu-bind=none"]
    return merged([*wanted, *placement, *system, *container, *where.step_options])


def srun(job: Job, where: SlurmTarget) -> tuple[str, ...]:
    """The whole command where there is no batch job: in an allocation a step of it, elsewhere a job of its own."""
    if where.in_allocation:
        overlap = ("--overlap",) if where.in_step else ()
        words = (f"--job-name={job.name}", *node_options(job, where), *overlap, *step_options(job, where))
    else:
        step = step_options(job, where)
        if _export_of_the_job(where):
            step = tuple(option for option in step if option != EXPORT)
        words = (*job_options(job, where), *step)
    if where.hosts:  # they come from a file
        words = tuple(option for option in words if option_name(option) not in _SET_BY_HOSTFILE)
    return ("srun", *merged(words), *_SHELL_UNDER_SRUN, *job.command)


def variables(job: Job, where: SlurmTarget, *, first_host: str = "") -> dict[str, str]:
    """What every process gets besides what Slurm tells it and the token."""
    store = {"BUSBW_RENDEZVOUS": f"tcp://{first_host}:{where.port}"} if first_host else {}
    return {**dict(job.environment), "BUSBW_LAUNCHER": "slurm", **store}


def step_file(step: int, end: str) -> str:
    """The name of one of a step's files: `out`, `err`, or `code` once it has ended."""
    return f"{_NAME_OF_STEP.format(step=step)}.{end}"


def script(job: Job, where: SlurmTarget, made_by: str = "busbw launch slurm") -> str:
    """The batch script; it makes the job's token, runs the steps, and leaves what they say in the folder.

    Args:
        job: What is run.
        where: How.
        made_by: The command that made it, for its reader.
    """
    lines = [
        "#!/bin/bash",
        f"# {_title(job, where)}; made by:",
        f"#   {made_by}",
        *(f"#SBATCH {_header(option)}" for option in _of_the_batch_job(job, where)),
        "",
        *_folder(job, where),
        "",
        f"unset {' '.join(name for name in PLACE if name != 'BUSBW_TOKEN')} {' '.join(OF_THE_OUTPUT)}",
        *(f"export {name}={shlex.quote(value)}" for name, value in variables(job, where).items()),
        "# Made here, it lies in no file and the scheduler keeps no copy of it; srun hands the environment on.",
        "BUSBW_TOKEN=$(od -An -v -N32 -tx1 /dev/urandom | tr -d ' \\n')",
        "export BUSBW_TOKEN",
        "",
        *_order(job, where),
        *_steps(job, where),
    ]
    return "\n".join(lines) + "\n"


def _title(job: Job, where: SlurmTarget) -> str:
    nodes = len(where.hosts) or job.nodes
    each = "as the host file says" if where.hosts else f"with {job.processes_per_node} on each"
    count = total(where.hosts) if where.hosts else job.processes
    return (
        f"{Path(job.program).name} on {count_text(nodes, 'node')}, {count_text(count, 'process', 'processes')} {each}"
    )


def _header(option: str) -> str:
    """As a line of #SBATCH takes it: it knows quotes and ends at a blank."""
    return option if re.fullmatch(r"[^\s\"'\\#]+", option) else '"' + re.sub(r'(["\\])', r"\\\1", option) + '"'


def _folder(job: Job, where: SlurmTarget) -> list[str]:
    if not where.standalone:
        return [f"folder={shlex.quote(str(where.folder))}"]
    return [
        "# What the steps say; `busbw launch attach FOLDER` shows it and keeps the record, also while the job runs.",
        "folder=${SLURM_SUBMIT_DIR:?}/busbw-$SLURM_JOB_ID",
        'mkdir -p "$folder" || exit 3',
        f'printf \'{{"job": "%s", "steps": {where.steps}, "collective": "{collective_of(job)}"}}\\n\' '
        '"$SLURM_JOB_ID" >"$folder/job.json"',
    ]


def _order(job: Job, where: SlurmTarget) -> list[str]:
    """The file that srun takes the order of the nodes from: a line for each process."""
    if not where.has_order:
        return []
    if where.hosts:
        names = [host.name for host in where.hosts for _ in range(host.processes)]
        fill = [f"printf '%s\\n' {' '.join(map(shlex.quote, names))} >\"$folder/hosts\""]
    else:
        repeat = f"awk '{{ for (i = 0; i < {job.processes_per_node}; i++) print }}' >\"$folder/hosts\""
        fill = [
            "# This job's nodes in the order of the switches; those that no switch was known for come last.",
            f"printf '%s\\n' {' '.join(map(shlex.quote, where.order))} >\"$folder/order\"",
            'scontrol show hostnames "$SLURM_JOB_NODELIST" >"$folder/nodes"',
            '{ grep -Fx -f "$folder/nodes" "$folder/order"; grep -vFx -f "$folder/order" "$folder/nodes"; } |',
            f"  {repeat}",
        ]
    return [
        *fill,
        'export SLURM_HOSTFILE="$folder/hosts"',
        f'BUSBW_RENDEZVOUS=tcp://$(head -n 1 "$folder/hosts"):{where.port}',
        "export BUSBW_RENDEZVOUS",
        "",
    ]


def _steps(job: Job, where: SlurmTarget) -> list[str]:
    options = step_options(job, where)
    if where.has_order:  # the number of nodes comes from the file
        options = (f"--ntasks={total(where.hosts) or job.processes}", *options)
    words = shlex.join(["srun", *options, *_SHELL, *job.command])
    lines = [
        f'  {words} >"$folder/$name.out" 2>"$folder/$name.err"',
        "  code=$?",
        '  echo "$code" >"$folder/$name.part" && mv "$folder/$name.part" "$folder/$name.code"',
        '  [ "$first" != 0 ] || first=$code',
    ]
    if where.standalone:  # the table, for who looks into the log; lines of records begin with a brace
        lines.append('  grep -v "^{" "$folder/$name.out"; cat "$folder/$name.err" >&2')
    # After wrong or slow data the next step may be as good as ever; after anything else it would fail as well.
    return [
        "first=0",
        f"for step in {' '.join(str(step) for step in range(1, where.steps + 1))}; do",
        f"  name={_NAME_OF_STEP.format(step='$step')}",
        *lines,
        "  case $code in 0 | 1 | 5) ;; *) break ;; esac",
        "done",
        'exit "$first"',
    ]
