"""Renders command lines and batch scripts for Slurm: pure functions of the job and the target.

A batch script runs one or more steps in sequence. Each step is one srun command, which starts all processes of a run.
"""

import re
import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.engine import ENGINE, WORLD_VARIABLES, collective_name
from busbw.errors import ExitCode
from busbw.launchers.job import shell
from busbw.launchers.job.hosts import HostSlots, process_count
from busbw.launchers.job.job import Job
from busbw.launchers.slurm.hostlist import expand_hostlist
from busbw.units import count_text

_STEP_NAME = "step-{step}"
BATCH_LOG = "batch.log"
"""Log of the batch script itself. Slurm creates it before the script starts."""
_STDOUT_OF_PROCESS_0 = '[ "$SLURM_PROCID" = 0 ] || exec 1>&2'
"""Redirects stdout of all processes but 0 to stderr. srun merges the stdout of its tasks in pieces of about 1 KiB, so
other output would split the records of process 0."""
_TASK_WRAPPER = ("sh", "-c", f'trap : INT TERM HUP; {_STDOUT_OF_PROCESS_0}; "$@"; exit $?', "sh")
"""Shell around each process that turns a signal into an exit code. If a task dies by a signal, srun ends the step at
once and drops the output of the others (seen with Slurm 22.05)."""
_SRUN_TASK_WRAPPER = (
    *("sh", "-c"),
    "; ".join(
        [
            "trap '' USR1 USR2",
            _STDOUT_OF_PROCESS_0,
            *shell.run_forwarding_signals('"$@"', {"USR1": "INT", "USR2": "KILL"}, caught_only="INT TERM HUP"),
            "exit $code",
        ]
    ),
    "sh",
)
"""Shell around each process of an srun that runs on this machine, without a batch job.

srun forwards SIGUSR1 and SIGUSR2 to its tasks even without Slurm's controller. This shell then interrupts its program
(SIGUSR1) or kills it (SIGUSR2). The shell first ignores both signals, which would end it, until it can forward them.
`run_forwarding_signals` sets `code` to the program's exit code.

SIGINT, SIGTERM and SIGHUP of Slurm reach all processes of the step. The shell catches them, so that it does not end
before its program, but does not forward them, because the program gets them anyway.

The program runs in the background. So it starts with SIGINT and SIGQUIT ignored, until it installs its handlers, and
with /dev/null as its stdin."""
_SET_BY_HOSTFILE = {"--nodes", "--ntasks-per-node", "--nodelist"}
"""Options that contradict a host file, which defines the nodes and the number of processes on each."""
EXPORT = "--export=ALL"
"""Exports the environment with the token, even if a site disables that (SBATCH_EXPORT, SLURM_EXPORT_ENV)."""
OUTPUT_VARIABLES = ("SLURM_LABELIO", "SLURM_STDOUTMODE", "SLURM_STDERRMODE")
"""Variables that would change how srun handles the output."""
_UNSET_VARIABLES = (*(name for name in WORLD_VARIABLES if name != "BUSBW_TOKEN"), *OUTPUT_VARIABLES)
"""Variables that a batch script unsets. BUSBW_TOKEN is absent, because the script sets it."""


@dataclass(frozen=True)
class SlurmTarget:
    """Settings of a launch through Slurm."""

    folder: Path | None = None
    """Folder for the files of a batch job, shared by this machine and the nodes. None: srun runs from this machine."""
    standalone: bool = False
    """True for a batch script to submit by hand. The script creates its folder in the submit directory."""
    in_allocation: bool = False
    """True if this process runs within the allocation that srun will use."""
    in_step: bool = False
    """True if this process is a task of a step, which then shares its resources with the new step."""
    job_options: tuple[str, ...] = ()
    """Options of sbatch, or of srun without a batch job: partition, account, ..."""
    step_options: tuple[str, ...] = ()
    """Options of srun for the step."""
    gpus_per_node: int | None = None
    """Value of --gpus-per-node. None or 0: the job does not use this option."""
    exclusive: bool = True
    """True to request whole nodes."""
    mpi: str = "none"
    """Value of srun's --mpi."""
    container_image: str = ""
    container_mounts: str = ""
    hosts: tuple[HostSlots, ...] = ()
    """Nodes of the job in rank order, with their numbers of processes. Empty: Slurm chooses the nodes."""
    order: tuple[str, ...] = ()
    """All nodes of the cluster in the order of use. Empty: `hosts` or Slurm orders the nodes."""
    port: int = 0
    """Port on which process 0 listens. Used only if `has_order`: BUSBW_RENDEZVOUS then states the first node and this
    port. If Slurm orders the nodes, Slurm's variables state the first node."""
    scratch: Path = Path("/tmp")
    """Folder for temporary files of an srun from this machine."""
    steps: int = 1
    """Number of steps in sequence, each with its own run."""

    @property
    def has_order(self) -> bool:
        """True if busbw, not Slurm, decides the order of the nodes."""
        return bool(self.hosts or self.order)

    def without_nodes(self, nodes: Collection[str]) -> "SlurmTarget":
        """Returns the target without these nodes: in `hosts`, and by changed options --nodelist and --exclude.

        An allocation keeps its nodes, so within it the options of the step leave the nodes out.
        """
        remaining_nodes: list[str] = []
        excluded = [*nodes]
        options: list[str] = []
        previous_options = self.step_options if self.in_allocation else self.job_options
        for option in previous_options:
            name, _, value = option.partition("=")
            if name == "--nodelist":
                remaining_nodes += [node for node in expand_hostlist(value) if node not in nodes]
            elif name == "--exclude":
                excluded.append(value)
            else:
                options.append(option)
        if remaining_nodes:
            options.append(f"--nodelist={','.join(remaining_nodes)}")
        options.append(f"--exclude={','.join(excluded)}")
        hosts = tuple(host for host in self.hosts if host.name not in nodes)
        if self.in_allocation:
            return replace(self, hosts=hosts, step_options=tuple(options))
        return replace(self, hosts=hosts, job_options=tuple(options))


def collective_of(job: Job) -> str:
    """Collective that the job's program measures, or the first argument of the engine."""
    program = Path(job.program).name
    return job.arguments[0] if program == ENGINE else collective_name(program)


def option_name(option: str) -> str:
    """Name of an option: `--nodes` for `--nodes=2`."""
    return option.partition("=")[0]


def merge_options(options: Iterable[str]) -> tuple[str, ...]:
    """Removes repeated options. An option keeps its first position and its last value."""
    last_by_name: dict[str, str] = {}
    for option in options:
        last_by_name[option_name(option)] = option
    return tuple(last_by_name.values())


def sbatch_command(job: Job, target: SlurmTarget, script_path: Path) -> tuple[str, ...]:
    """Returns the command that submits a script.

    The command repeats the script's options, because variables such as SBATCH_PARTITION override those in the script.
    """
    return ("sbatch", "--parsable", *merge_options([EXPORT, *_sbatch_options(job, target)]), str(script_path))


def _sbatch_options(job: Job, target: SlurmTarget) -> tuple[str, ...]:
    """Options in the #SBATCH lines of the script."""
    log = "busbw-%j.log" if target.standalone else f"{target.folder}/{BATCH_LOG}"
    # After a node failure, Slurm must not restart the measurement silently.
    return (*job_options(job, target), "--no-requeue", f"--output={log}")


def node_options(job: Job, target: SlurmTarget) -> tuple[str, ...]:
    """Options for the numbers of nodes and processes."""
    if target.hosts:
        names = ",".join(host.name for host in target.hosts)
        counts = {host.processes for host in target.hosts}
        per_node = (f"--ntasks-per-node={counts.pop()}",) if len(counts) == 1 else ()
        return (
            f"--nodes={len(target.hosts)}",
            f"--ntasks={process_count(target.hosts)}",
            *per_node,
            f"--nodelist={names}",
        )
    return (f"--nodes={job.nodes}", f"--ntasks={job.processes}", f"--ntasks-per-node={job.processes_per_node}")


def job_options(job: Job, target: SlurmTarget) -> tuple[str, ...]:
    """Options of the job. The options of the user override those of the machine type, which override those of busbw."""
    machine_type_options = [entry.option for entry in job.machine_type.slurm_job] if job.machine_type else []
    if not target.exclusive:  # --shared
        machine_type_options = [option for option in machine_type_options if option_name(option) != "--exclusive"]
    gpus = [f"--gpus-per-node={target.gpus_per_node}"] if target.gpus_per_node else []
    exclusive = ["--exclusive"] if target.exclusive else []
    options = [f"--job-name={job.name}", *node_options(job, target), *exclusive, *gpus, *machine_type_options]
    return merge_options([*options, *target.job_options])


def step_options(job: Job, target: SlurmTarget) -> tuple[str, ...]:
    """Options of a step, started by the batch script or from this machine."""
    distribution = ["--distribution=arbitrary"] if target.has_order else []  # processes follow the host file
    container = []
    if target.container_image:
        container.append(f"--container-image={target.container_image}")
        if target.container_mounts:
            container.append(f"--container-mounts={target.container_mounts}")
    # --wait is the time in seconds from the end of the first process until Slurm kills the others; 0: never. In a
    # measurement, the others report the loss and end by themselves before. A search continues without the lost process.
    wait = "--wait=0" if job.tolerates_losses else "--wait=30"
    # NCCL itself binds its threads to the cores near each GPU.
    options = [f"--mpi={target.mpi}", EXPORT, "--kill-on-bad-exit=0", wait, "--cpu-bind=none"]
    return merge_options([*options, *distribution, *container, *target.step_options])


def srun_command(job: Job, target: SlurmTarget) -> tuple[str, ...]:
    """The srun command without a batch job: a new step within an allocation, or a new job."""
    if target.in_allocation:
        overlap = ("--overlap",) if target.in_step else ()
        options = (f"--job-name={job.name}", *node_options(job, target), *overlap, *step_options(job, target))
    else:
        options_of_step = step_options(job, target)
        # The last of several equal options counts, and the options of the step are last. So EXPORT among them would
        # override the user's option of the job.
        user_sets_export = any(option_name(option) == "--export" for option in target.job_options)
        if user_sets_export:
            options_of_step = tuple(option for option in options_of_step if option != EXPORT)
        options = (*job_options(job, target), *options_of_step)
    if target.hosts:  # the host file defines the nodes
        options = tuple(option for option in options if option_name(option) not in _SET_BY_HOSTFILE)
    return ("srun", *merge_options(options), *_SRUN_TASK_WRAPPER, *job.command)


def shared_variables(job: Job, target: SlurmTarget, *, first_host: str = "") -> dict[str, str]:
    """Variables of every process, without Slurm's own, the token and secrets."""
    rendezvous = {"BUSBW_RENDEZVOUS": f"tcp://{first_host}:{target.port}"} if first_host else {}
    return {**job.plain_environment, "BUSBW_LAUNCHER": "slurm", **rendezvous}


def _secret_lines(job: Job) -> list[str]:
    """Script lines that require the job's secrets in the environment: users may read the script, or share it."""
    if not job.secrets:
        return []
    return [
        "# These variables may be secret. sbatch passes them on from its environment.",
        *(f': "${{{name}?export it before sbatch, and keep --export=ALL}}"' for name in job.secrets),
        f"export {' '.join(job.secrets)}",
    ]


def step_file(step: int, suffix: str) -> str:
    """Name of a step's file with the suffix `out`, `err`, or `code` (which appears when the step has ended)."""
    return f"{_STEP_NAME.format(step=step)}.{suffix}"


def batch_script(job: Job, target: SlurmTarget, made_by: str = "busbw launch slurm") -> str:
    """Returns the batch script, which creates the token, runs the steps, and stores their output in the folder.

    Args:
        job: The job.
        target: Settings of the launch.
        made_by: Command line that created the script, for a comment in it.
    """
    lines = [
        "#!/bin/bash",
        f"# {_title(job, target)}; made by:",
        f"#   {made_by}",
        *(f"#SBATCH {_quote_option(option)}" for option in _sbatch_options(job, target)),
        "",
        *_folder_lines(job, target),
        "",
        f"unset {' '.join(_UNSET_VARIABLES)}",
        *(f"export {name}={shlex.quote(value)}" for name, value in shared_variables(job, target).items()),
        *_secret_lines(job),
        "# The token is created here, so it is in no file and not in the scheduler. srun exports it to the processes.",
        "BUSBW_TOKEN=$(od -An -v -N32 -tx1 /dev/urandom | tr -d ' \\n')",
        "export BUSBW_TOKEN",
        "",
        *_host_file_lines(job, target),
        *_step_lines(job, target),
    ]
    return "\n".join(lines) + "\n"


def _title(job: Job, target: SlurmTarget) -> str:
    nodes, count, per_node = job.nodes, job.processes, f"with {job.processes_per_node} on each"
    if target.hosts:
        nodes, count, per_node = len(target.hosts), process_count(target.hosts), "as the host file says"
    processes = count_text(count, "process", "processes")
    return f"{Path(job.program).name} on {count_text(nodes, 'node')}, {processes} {per_node}"


def _quote_option(option: str) -> str:
    """Quotes an option for an #SBATCH line, where unquoted values end at a blank."""
    needs_no_quotes = re.fullmatch(r"[^\s\"'\\#]+", option)
    if needs_no_quotes:
        return option
    escaped = re.sub(r'(["\\])', r"\\\1", option)
    return f'"{escaped}"'


def _folder_lines(job: Job, target: SlurmTarget) -> list[str]:
    """Script lines that set $folder."""
    if not target.standalone:
        return [f"folder={shlex.quote(str(target.folder))}"]
    return [
        "# Output of the steps. `busbw launch attach FOLDER` shows it and saves the record, also while the job runs.",
        "folder=${SLURM_SUBMIT_DIR:?}/busbw-$SLURM_JOB_ID",
        f'mkdir -p "$folder" || exit {ExitCode.ENVIRONMENT:d}',
        f'printf \'{{"job": "%s", "steps": {target.steps}, "collective": "{collective_of(job)}"}}\\n\' '
        '"$SLURM_JOB_ID" >"$folder/job.json"',
    ]


def _host_file_lines(job: Job, target: SlurmTarget) -> list[str]:
    """Script lines that write the host file of srun, with one line per process."""
    if not target.has_order:
        return []
    if target.hosts:
        names = [host.name for host in target.hosts for _ in range(host.processes)]
        write_hosts = [f"printf '%s\\n' {' '.join(map(shlex.quote, names))} >\"$folder/hosts\""]
    else:
        write_repeated = f"awk '{{ for (i = 0; i < {job.processes_per_node}; i++) print }}' >\"$folder/hosts\""
        write_hosts = [
            "# Nodes of this job, ordered by switch. Nodes without a known switch come last.",
            f"printf '%s\\n' {' '.join(map(shlex.quote, target.order))} >\"$folder/order\"",
            'scontrol show hostnames "$SLURM_JOB_NODELIST" >"$folder/nodes"',
            '{ grep -Fx -f "$folder/nodes" "$folder/order"; grep -vFx -f "$folder/order" "$folder/nodes"; } |',
            f"  {write_repeated}",
        ]
    return [
        *write_hosts,
        'export SLURM_HOSTFILE="$folder/hosts"',
        f'BUSBW_RENDEZVOUS=tcp://$(head -n 1 "$folder/hosts"):{target.port}',
        "export BUSBW_RENDEZVOUS",
        "",
    ]


def _step_lines(job: Job, target: SlurmTarget) -> list[str]:
    """Script lines that run the steps. The script's exit code is the first one that is not 0."""
    options = step_options(job, target)
    if target.has_order:  # the host file defines the number of nodes
        options = (f"--ntasks={process_count(target.hosts) or job.processes}", *options)
    command_line = shlex.join(["srun", *options, *_TASK_WRAPPER, *job.command])
    loop_lines = [
        f'  {command_line} >"$folder/$name.out" 2>"$folder/$name.err"',
        "  code=$?",
        '  echo "$code" >"$folder/$name.part" && mv "$folder/$name.part" "$folder/$name.code"',
        '  [ "$first" != 0 ] || first=$code',
    ]
    if target.standalone:  # copies the table, without record lines, to the job's log
        loop_lines.append('  grep -v "^{" "$folder/$name.out"; cat "$folder/$name.err" >&2')
    # The loop continues after success (0), wrong data (1) and too low bandwidth (5). Other errors would repeat.
    return [
        "first=0",
        f"for step in {' '.join(str(step) for step in range(1, target.steps + 1))}; do",
        f"  name={_STEP_NAME.format(step='$step')}",
        *loop_lines,
        "  case $code in 0 | 1 | 5) ;; *) break ;; esac",
        "done",
        'exit "$first"',
    ]
