"""A real Slurm on this machine: munge, the controller and some nodes as child processes, in a folder of its own.

Debian's slurm-wlm and munge are enough; root is needed, because every virtual node gets a host name and a table of host
names of its own (namespaces of mounts, of names, and of processes, so that none outlives its node). All sockets are on
loopback, and nothing outside the folder is written.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from polling import HANG_GUARD_S, free_ports

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "salloc", "squeue", "scontrol", "scancel", "sinfo")
CPUS = 4
GPUS = ("/dev/null", "/dev/zero")
"""Device files that Slurm uses as a node's GPUs; the machine has no GPU."""
OUTER = ("SLURM_", "SBATCH_", "SRUN_")
NAMESPACES = ("--mount", "--uts", "--pid")
ENDS_WITHIN_S = 60.0

CONFIGURATION = """\
ClusterName=virtual
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
MpiDefault=none
MpiParams=ports={first_port}-{last_port}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
TopologyPlugin=topology/tree
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
GresTypes=gpu
JobCompType=jobcomp/none
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
StateSaveLocation={folder}/state
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/spool.%n
SlurmdLogFile={folder}/%n.log
SlurmdParameters=config_overrides
TmpFS={folder}/spool.%n
ReturnToService=2
SlurmdTimeout=12
KillWait=2
UnkillableStepTimeout=10
InactiveLimit=0
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
{nodes}
PartitionName=main Nodes={names} Default=YES MaxTime=60 State=UP
PartitionName=closed Nodes={names} MaxTime=60 State=DOWN
{settings}
"""


def skip_reason() -> str:
    """Why no Slurm can be had on this machine, or an empty string."""
    path = _path()
    if missing := [name for name in PROGRAMS if not shutil.which(name, path=path)]:
        return f"not installed: {' '.join(missing)} (Debian: slurm-wlm and munge; tools/setup.sh test installs them)"
    if os.geteuid() != 0:
        return "only root may give virtual nodes host names of their own"
    tried = subprocess.run(["unshare", *NAMESPACES, "--fork", "--mount-proc", "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        return f"this machine allows no namespaces: {tried.stderr.strip()}"
    return ""


class Slurm:
    """A cluster of virtual nodes n1, n2... on loopback; `environment` makes Slurm's commands find it.

    Two switches: the odd nodes hang on the first, the even ones on the second, so that an order by switch is not the
    order of the names.
    """

    def __init__(self, folder: Path, nodes: int, settings: str = "") -> None:
        self.folder = folder
        self.settings = settings
        """More lines of slurm.conf."""
        self.nodes = [f"n{index}" for index in range(1, nodes + 1)]
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}
        self.private = folder / "private"
        """Every node, and this machine, has a folder of its own at this path."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Returns when every node is idle."""
        for inner in ("state", "private", *(f"spool.{node}" for node in self.nodes)):
            (self.folder / inner).mkdir(parents=True)
        self._configure()
        self._start_munge()
        self._spawn("slurmctld", "slurmctld", "-D", "-c", "-f", self.environment["SLURM_CONF"])
        for node in self.nodes:
            self.start_node(node)
        self._wait(self._all_idle, "every node idle")

    def start_node(self, node: str) -> None:
        """Starts a node's daemon, in namespaces where the node's name is the host's and all names are known."""
        own = 'mount --bind "$1/hosts" /etc/hosts && mount -t tmpfs none "$1/private"'
        start = 'echo "$2" >/proc/sys/kernel/hostname && exec slurmd -D -N "$2" -f "$1/slurm.conf"'
        words = ["sh", "-c", f"{own} && {start}", "sh", str(self.folder), node]
        # The daemon is the first process of a table of its own: when it ends, however that is, nothing of it goes on.
        self._spawn(node, "unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc", *words)

    def crash_node(self, node: str) -> None:
        """Simulates a power cut: kills the daemon, the steps and their tasks at once."""
        daemon = self._processes.pop(node)
        daemon.kill()
        daemon.wait()

    @contextmanager
    def without_controller(self) -> Iterator[None]:
        """Nobody answers Slurm's commands meanwhile; jobs go on."""
        controller = self._processes.pop("slurmctld")
        controller.send_signal(signal.SIGTERM)
        controller.wait(timeout=ENDS_WITHIN_S)
        try:
            yield
        finally:
            self._spawn("slurmctld", "slurmctld", "-D", "-f", self.environment["SLURM_CONF"])
            self._wait(lambda: self.run("squeue", check=False).returncode == 0, "an answer of the controller")

    def restart_nodes(self) -> None:
        """Ends all steps with their nodes. A step with an unreported end would occupy them for minutes."""
        for node in self.nodes:
            self.crash_node(node)
        names = f"NodeName={','.join(self.nodes)}"
        self.run("scontrol", "update", names, "State=DOWN", "Reason=restarted")
        for node in self.nodes:
            self.start_node(node)
        # The daemons' own word is enough (ReturnToService), and Slurm refuses to resume a node that is there already.
        self._wait(self._all_idle, "all nodes idle again")

    def recover(self, node: str) -> None:
        """Brings a node back that crashed."""
        self.start_node(node)
        self.run("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
        self._wait(self._all_idle, f"{node} idle again")

    def run(self, *words: str, check: bool = True, **more: str) -> "subprocess.CompletedProcess[str]":
        """One of Slurm's commands."""
        return subprocess.run(
            words, env=self.with_slurm(more), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=check
        )

    def with_slurm(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Our environment, without what an outer Slurm may have set, and with this one."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OUTER)}
        return {**kept, **self.environment, **(more or {})}

    def jobs(self) -> list[str]:
        """The ids of all jobs that wait or run."""
        return self.run("squeue", "--noheader", "--format=%i").stdout.split()

    def ranks(self) -> list[int]:
        """The processes of busbw's engine that run on the nodes."""
        return [pid for pid in self._processes_of_this_cluster() if _program(pid) == "busbw-engine"]

    def clear(self) -> None:
        """Cancels what a test left behind."""
        if self.jobs():
            self.run("scancel", "--user=root", check=False)
            self._wait(self._all_idle, "the end of all jobs")

    def stop(self) -> None:
        """Ends everything, by its process id."""
        self.run("scancel", "--user=root", check=False)
        deadline = time.monotonic() + ENDS_WITHIN_S
        while self._processes.get("slurmctld") and self.jobs() and time.monotonic() < deadline:
            time.sleep(0.1)
        for name, process in self._processes.items():
            # The parent of a node's daemon ignores SIGTERM. SIGKILL also ends the node.
            process.send_signal(signal.SIGKILL if name in self.nodes else signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(timeout=ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        for pid in self._processes_of_this_cluster():
            _kill(pid)

    def _configure(self) -> None:
        controller_port, *node_ports = free_ports(1 + len(self.nodes))
        first_port = _free_range(100)
        lines = [
            f"NodeName={node} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS} "
            f"RealMemory=1000 Gres=gpu:{len(GPUS)} State=UNKNOWN"
            for node, port in zip(self.nodes, node_ports, strict=True)
        ]
        names = ",".join(self.nodes)
        text = CONFIGURATION.format(
            host=socket.gethostname(),
            folder=self.folder,
            controller_port=controller_port,
            first_port=first_port,
            last_port=first_port + 99,
            nodes="\n".join(lines),
            names=names,
            settings=self.settings,
        )
        (self.folder / "slurm.conf").write_text(text)
        devices = "".join(f"Name=gpu File={device}\n" for device in GPUS)
        (self.folder / "gres.conf").write_text(devices)
        switches = ["SwitchName=leaf1 Nodes=" + ",".join(self.nodes[0::2])]
        switches += ["SwitchName=leaf2 Nodes=" + ",".join(self.nodes[1::2])] if len(self.nodes) > 1 else []
        spine = "SwitchName=spine Switches=" + ",".join(f"leaf{index}" for index in range(1, len(switches) + 1))
        (self.folder / "topology.conf").write_text("\n".join([*switches, spine]) + "\n")
        hosts = [f"127.0.0.{10 + index} {node}" for index, node in enumerate(self.nodes, start=1)]
        (self.folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *hosts]) + "\n")

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.folder.chmod(0o755)  # munge refuses a socket that others cannot reach
        files = [f"--{what}={self.folder}/munge.{end}" for what, end in (("key-file", "key"), ("socket", "sock"))]
        files += [f"--{what}={self.folder}/munge.{end}" for what, end in (("pid-file", "pid"), ("seed-file", "seed"))]
        self._spawn("munged", "munged", "--foreground", "--force", *files, f"--log-file={self.folder}/munge.log")
        self._wait((self.folder / "munge.sock").exists, "munge's socket")

    def _spawn(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.stderr").open("ab") as stderr:
            self._processes[name] = subprocess.Popen(
                # None of them outlives the tests.
                ["setpriv", "--pdeathsig", "KILL" if name in self.nodes else "TERM", *words],
                env=self.with_slurm(),
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )

    def _all_idle(self) -> bool:
        said = self.run("sinfo", "--noheader", "--Node", "--partition=main", "--format=%N %t", check=False).stdout
        return said.split() == [word for node in self.nodes for word in (node, "idle")]

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + HANG_GUARD_S
        while not condition():
            dead = [name for name, process in self._processes.items() if process.poll() is not None]
            assert not dead, f"{dead} ended: {[self._last_words(name) for name in dead]}"
            assert time.monotonic() < deadline, f"never happened: {what}; {self.run('sinfo', check=False).stdout}"
            time.sleep(0.05)

    def _last_words(self, name: str) -> str:
        return (self.folder / f"{name}.stderr").read_text(errors="replace")[-500:]

    def _processes_of_this_cluster(self) -> Sequence[int]:
        """All processes with this cluster's configuration: daemons, steps, tasks, and waiting commands."""
        marks = (b"SLURM_CONF=" + os.fsencode(self.environment["SLURM_CONF"]) + b"\0", os.fsencode(f"{self.folder}/"))
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if marks[0] in (entry / "environ").read_bytes() or marks[1] in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue  # it has ended meanwhile
        return found


def _path() -> str:
    """Where daemons lie is not on every user's path."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""  # it has ended meanwhile


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _free_range(count: int) -> int:
    """The first of so many free ports in a row, below those that the system gives out by itself."""
    start = 20000 + os.getpid() % 100 * 100
    candidates: list[int] = [*range(start, 32000, count), *range(20000, start, count)]
    for first in candidates:
        sockets = [socket.socket() for _ in range(count)]
        try:
            for offset, one in enumerate(sockets):
                one.bind(("127.0.0.1", first + offset))
        except OSError:
            continue
        else:
            return first
        finally:
            for one in sockets:
                one.close()
    raise AssertionError(f"no {count} free ports in a row")
