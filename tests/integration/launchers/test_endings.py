"""Every launch ends with a message, an exit code and a complete record: killed, stopped and interrupted in each phase.

One rank hangs in the phase, so that the signal finds it there. All phases of a case run at the same time.
"""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from polling import send_signal, wait_for_end

from .. import mpi
from ..programs import Programs
from . import private_sshd
from .launching import Launched, Launching, processes_with
from .slurm import Slurm

PHASES = {"connect": "rendezvous", "start": "initialisation", "measure": "timing", "after the last row": "report"}
"""Phase of the engine for each phase of a run."""
CONNECTIONS_OF_A_JOINED_PROCESS = 2
STATE_COLUMN, INODE_COLUMN, ESTABLISHED = 3, 9, "01"
"""Of the tables /proc/*/net/tcp."""
SWEEP = ["all_reduce", "-b", "8", "-e", "64", "-f", "8", "-n", "2"]
LIMIT_S = 10
"""Time limit of runs that end by it. A busy machine delays ranks by seconds."""


@dataclass(frozen=True)
class Launcher:
    """How one launcher starts two processes."""

    words: list[str]
    rank_variables: tuple[str, ...]
    """Variables that may hold the number of a process."""
    environment: dict[str, str] = field(default_factory=dict)

    def engine_of(self, rank: int, folder: Path) -> int | None:
        """The engine of a rank of the job in this folder. None before its start."""
        for pid in processes_with(f"MARK={folder}\0"):
            with suppress(OSError):  # it has ended meanwhile
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                is_engine = Path(f"/proc/{pid}/exe").readlink().name == "busbw-engine"
                if is_engine and any(f"{name}={rank}".encode() in variables for name in self.rank_variables):
                    return pid
        return None


def _local(_tmp_path: Path, _stack: ExitStack, _request: pytest.FixtureRequest) -> Launcher:
    return Launcher(["local", "--processes", "2"], ("BUSBW_RANK",))


def _ssh(tmp_path: Path, stack: ExitStack, _request: pytest.FixtureRequest) -> Launcher:
    if reason := private_sshd.skip_reason():
        pytest.skip(reason)
    (tmp_path / "sshd").mkdir()
    sshd = stack.enter_context(private_sshd.PrivateSshd(tmp_path / "sshd"))
    where = ["--ssh", sshd.ssh, "--hosts", "node1,node2", "--root-address", "127.0.0.1"]
    return Launcher(["ssh", *where], ("BUSBW_RANK",))


def _mpirun(family: str) -> Callable[[Path, ExitStack, pytest.FixtureRequest], Launcher]:
    def make(_tmp_path: Path, _stack: ExitStack, _request: pytest.FixtureRequest) -> Launcher:
        if reason := mpi.skip_reason(family):
            pytest.skip(reason)
        words = ["mpirun", "--mpirun", str(mpi.mpirun(family)), "--processes-per-node", "2"]
        return Launcher(words, ("OMPI_COMM_WORLD_RANK", "PMI_RANK"))

    return make


def _slurm(submit_with: str) -> Callable[[Path, ExitStack, pytest.FixtureRequest], Launcher]:
    def make(_tmp_path: Path, _stack: ExitStack, request: pytest.FixtureRequest) -> Launcher:
        slurm: Slurm = request.getfixturevalue("slurm")
        programs: Programs = request.getfixturevalue("programs")
        words = ["slurm", "--submit-with", submit_with, "--nodes", "2", "--shared", "--srun-arg=--wait=2"]
        environment = {**slurm.with_slurm(), "BUSBW_PROGRAMS": str(programs.installed_in)}
        return Launcher(words, ("SLURM_PROCID",), environment)

    return make


LAUNCHERS = {
    "local": _local,
    "ssh": _ssh,
    "openmpi": _mpirun("openmpi"),
    "mpich": _mpirun("mpich"),
    "sbatch": _slurm("sbatch"),
    "srun": _slurm("srun"),
}


@pytest.fixture(params=LAUNCHERS)
def launcher(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Launcher]:
    with ExitStack() as stack:
        yield LAUNCHERS[request.param](tmp_path, stack, request)


class RunInPhase:
    """A run with one rank that hangs in a phase."""

    def __init__(self, launcher: Launcher, phase: str, folder: Path, *more: str, rank: int = 1) -> None:
        folder.mkdir()
        self.phase = phase
        self.rank = rank
        self.folder = folder
        self._launcher = launcher
        words = [*launcher.words, "--env", f"MARK={folder}", "--", *SWEEP]
        fault = ["--fault", f"hang:rank={rank},phase={PHASES[phase]}"]
        self.launching = Launching([*words, *fault, *more], folder, launcher.environment)

    @property
    def has_record(self) -> bool:
        """True if the ranks are known when the run ends, so that it has a record."""
        return self.phase in {"measure", "after the last row"}

    def wait(self) -> None:
        """Waits until the rank is in the phase."""
        self.launching.wait(self._is_in_phase)

    def _is_in_phase(self) -> bool:
        if self.has_record:
            kind = "row" if self.phase == "after the last row" else "run"
            texts = [path.read_text() for path in self.folder.glob("busbw-records/*/records.jsonl")]
            return any(f'"kind":"{kind}"' in text for text in texts)
        pid = self._launcher.engine_of(self.rank, self.folder)
        return pid is not None and _connection_count(pid) >= CONNECTIONS_OF_A_JOINED_PROCESS

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the rank."""
        pid = self._launcher.engine_of(self.rank, self.folder)
        assert pid is not None
        send_signal(pid, number)

    def finish(self, code: int) -> Launched:
        """Waits for the end, and checks all that holds for every end."""
        ranks = processes_with(f"MARK={self.folder}\0")
        launched = self.launching.finish()
        case = (self.phase, launched.stderr)
        assert launched.code == code, case
        assert launched.stderr.strip(), case
        assert "Traceback" not in launched.stderr, case
        wait_for_end(ranks)
        if self.has_record:
            assert launched.records[0]["kind"] == "run"
            if self.rank != 0:
                assert (launched.records[-1]["kind"], launched.records[-1]["exit_code"]) == ("end", code), case
            else:
                rows_kept = self.phase == "after the last row"
                words = "the run lost a process; until then correct" if rows_kept else "nothing was measured"
                assert f"Data: {words}" in launched.stderr, case
        return launched


def _connection_count(pid: int) -> int:
    """TCP connections of a process. mpirun hands it other sockets, such as those to its launcher."""
    count = 0
    with suppress(OSError):  # it has ended meanwhile
        tables = [Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
        rows = [line.split() for table in tables for line in table]
        established = {f"socket:[{row[INODE_COLUMN]}]" for row in rows if row[STATE_COLUMN] == ESTABLISHED}
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                count += str(descriptor.readlink()) in established
    return count


@pytest.fixture
def in_each_phase(launcher: Launcher, tmp_path: Path) -> Iterator[Callable[..., list[RunInPhase]]]:
    """Starts a run for each phase, and waits until each is in its phase."""
    with ExitStack() as stack:

        def start(*more: str, phases: tuple[str, ...] = tuple(PHASES), rank: int = 1) -> list[RunInPhase]:
            runs = [RunInPhase(launcher, phase, tmp_path / phase.split()[0], *more, rank=rank) for phase in phases]
            for run in runs:
                stack.enter_context(run.launching)
            for run in runs:
                run.wait()
            return runs

        yield start


def test_a_killed_rank_is_named(in_each_phase: Callable[..., list[RunInPhase]]) -> None:
    runs = in_each_phase()
    for run in runs:
        run.send(signal.SIGKILL)
    for run in runs:
        # mpirun may end process 0 before it names its lost rank. The launcher then names the process.
        assert re.search("(rank|process) 1 ", run.finish(4).stderr)


def test_a_killed_process_0_is_named(in_each_phase: Callable[..., list[RunInPhase]]) -> None:
    """Its record has no end, because this process writes it."""
    runs = in_each_phase(phases=("measure", "after the last row"), rank=0)
    for run in runs:
        run.send(signal.SIGKILL)
    for run in runs:
        assert "rank 0" in run.finish(4).stderr


def test_a_stopped_rank_is_named_within_the_limit(in_each_phase: Callable[..., list[RunInPhase]]) -> None:
    runs = in_each_phase("-T", str(LIMIT_S))
    for run in runs:
        run.send(signal.SIGSTOP)
    for run in runs:
        # mpirun may end process 0 before it names its lost rank. The launcher then names the process.
        assert re.search("(rank|process) 1 ", run.finish(4).stderr)


def test_an_interrupt_ends_the_run(in_each_phase: Callable[..., list[RunInPhase]]) -> None:
    runs = in_each_phase()
    for run in runs:
        run.launching.interrupt()
    for run in runs:
        run.finish(130)
