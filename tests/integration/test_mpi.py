"""`--backend mpi` with the real Open MPI and MPICH: right results, lost ranks, traps."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from polling import HANG_GUARD_S, wait_for_end

from busbw.engine import COLLECTIVES

from . import mpi
from .launchers.launching import processes_with
from .launchers.slurm import Slurm
from .programs import (
    REDUCING,
    ROOTED,
    Finished,
    complaints,
    installed_in,
    of_kind,
    plain_environment,
    read_records,
)
from .table import rows_by_blanks, rows_by_pattern

# MPICH's waits spin: it is slow with more ranks than cores.
RANKS = {"openmpi": 4, "mpich": 2}
NAMES = {"openmpi": "Open MPI ", "mpich": "MPICH "}
TYPES = 12
OPERATORS = 6
SMALL = ["-b", "8", "-e", "4K", "-f", "8", "-n", "2"]
SMALL_ROWS = 4
# For runs that end by it. MPI may take seconds to start on a busy machine.
LIMIT_S = 10


@dataclass(frozen=True)
class Mpi:
    """One MPI, the engine that was built with it, and an empty folder to run in."""

    family: str
    engine: Path
    here: Path

    def words(self, ranks: int) -> list[str]:
        """Command that starts this many processes."""
        rights = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        more = [*rights, "--oversubscribe"] if self.family == "openmpi" else []
        return [str(mpi.mpirun(self.family)), *more, "-np", str(ranks)]

    def run(
        self, *arguments: object, starter: Sequence[str] | None = None, environment: dict[str, str] | None = None
    ) -> Finished:
        """The engine with these arguments; `starter` stands before it: an mpirun with the usual ranks, if not given."""
        words = [*(self.words(RANKS[self.family]) if starter is None else starter), str(self.engine)]
        process = subprocess.Popen(
            [*words, *map(str, arguments), "--backend", "mpi"],
            cwd=self.here,
            env={**plain_environment(), "MARK": str(self.here), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            stdout, stderr = process.communicate(timeout=HANG_GUARD_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        wait_for_end(processes_with(f"MARK={self.here}\0"))
        return Finished(process.returncode, stdout, stderr)

    def good(self, *arguments: object) -> Finished:
        finished = self.run(*arguments)
        assert finished.code == 0, finished.stderr
        return finished


def mpi_of(family: str, tmp_path: Path) -> Mpi:
    if reason := mpi.skip_reason(family):
        pytest.skip(reason)
    if reason := mpi.engine_skip_reason(family):
        pytest.skip(reason)
    here = tmp_path / "here"
    here.mkdir()
    return Mpi(family, mpi.engine(family), here)


@pytest.fixture(params=mpi.FAMILIES)
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> Mpi:
    return mpi_of(request.param, tmp_path)


@pytest.fixture
def openmpi(tmp_path: Path) -> Mpi:
    return mpi_of("openmpi", tmp_path)


@pytest.fixture
def mpich(tmp_path: Path) -> Mpi:
    return mpi_of("mpich", tmp_path)


# ---- right results -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_type_and_operator_is_right(installed: Mpi, collective: str) -> None:
    sizes = ["--sizes", "16,3000"]
    finished = installed.good(collective, *sizes, "-d", "all", "-o", "all", "-n", 1, "-w", 0)
    rows = rows_by_pattern(finished.stdout)
    operators = OPERATORS if collective in REDUCING else 1
    if collective != "sendrecv":
        assert len(rows) == TYPES * operators * 2
    assert len({row.dtype for row in rows}) == TYPES
    # N/A: in place is not defined.
    assert all(row.out_of_place.wrong == 0 and row.in_place.wrong in {0, None} for row in rows)
    assert "# Out of bounds values : 0 OK" in finished.stdout


@pytest.mark.parametrize("collective", ROOTED)
def test_every_root_is_right(installed: Mpi, collective: str) -> None:
    finished = installed.good(collective, "-b", "4K", "-e", "4K", "-r", "all", "-n", 1)
    rows = rows_by_pattern(finished.stdout)
    assert [row.root for row in rows] == list(range(RANKS[installed.family]))
    assert all(row.out_of_place.wrong == 0 and row.in_place.wrong == 0 for row in rows)


def test_groups_are_communicators_of_their_own(openmpi: Mpi) -> None:
    finished = openmpi.run("all_reduce", *SMALL, environment={"NCCL_TESTS_SPLIT": "MOD 2"})
    assert finished.code == 0, finished.stderr
    assert "# Out of bounds values : 0 OK" in finished.stdout
    assert {int(line.split()[4]) for line in finished.stdout.splitlines() if line.startswith("#  Rank")} == {0, 1}


def test_a_wrong_bit_is_found(installed: Mpi) -> None:
    finished = installed.run("all_reduce", *SMALL, "--fault", "flip:rank=1,index=1,bit=3")
    assert finished.code == 1
    assert all(row.out_of_place.wrong == 1 for row in rows_by_pattern(finished.stdout))
    assert "rank 1, receive buffer, index 1" in finished.stdout


def test_the_record_names_the_library(installed: Mpi) -> None:
    installed.good("all_reduce", *SMALL, "--records", "out.jsonl")
    records = read_records(installed.here / "out.jsonl")
    (run,) = of_kind(records, "run")
    assert run["backend"] == "mpi"
    assert run["backend_version"].startswith(NAMES[installed.family])
    machine = run["machine"]
    assert run["backend_version"].split()[-1] in machine["mpi_library"]
    assert Path(machine["mpi_path"]).is_file()
    assert machine["launcher"] == installed.family
    assert len(run["ranks"]) == RANKS[installed.family]
    assert len(of_kind(records, "row")) == 2 * SMALL_ROWS
    assert str(installed.here) not in json.dumps({name: value for name, value in run.items() if name != "environment"})


def test_alone(installed: Mpi) -> None:
    finished = installed.run("all_reduce", *SMALL, starter=[])
    assert finished.code == 0, finished.stderr
    assert "# One rank: nothing crosses a link" in finished.stdout


# ---- how it is started --------------------------------------------------------------------------------------------


def beside(installed: Mpi, *names: str) -> Path:
    """A folder with the installed programs' engine and some of the names, as an installation is laid out."""
    folder = installed.here.parent / "programs"
    folder.mkdir()
    for name in ("busbw-engine", *names):
        shutil.copy(installed_in() / name, folder / name)
    return folder


def test_the_engine_starts_the_one_beside_it(installed: Mpi) -> None:
    folder = beside(installed, "all_reduce_perf")
    (folder / "busbw-engine-mpi").symlink_to(installed.engine)
    started = Mpi(installed.family, folder / "all_reduce_perf", installed.here)
    finished = started.run(*SMALL, starter=installed.words(2))
    assert finished.code == 0, finished.stderr
    assert "backend=mpi" in finished.stdout
    assert len(rows_by_pattern(finished.stdout)) == SMALL_ROWS


def test_missing_parts_are_reported(openmpi: Mpi) -> None:
    folder = beside(openmpi, "all_reduce_perf")
    finished = Mpi(openmpi.family, folder / "all_reduce_perf", openmpi.here).run(*SMALL, starter=[])
    assert finished.code == 3
    sentence = finished.sentence()
    assert f"there is no {folder}/busbw-engine-mpi" in sentence
    assert "BUSBW_MPI=ON" in sentence


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["-t", "2"], ["-t (--nthreads) 2", "mpirun starts the processes"]),
        (["--processes", "2"], ["--processes 2", "mpirun starts the processes"]),
        (["-g", "2"], ["-g 2 (--ngpus)", "MPI backend"]),
        (["-y", "1"], ["-y (--stream_null) 1", "MPI backend"]),
        (["--fault", "flip:rank=9,index=0,bit=0"], ["rank=9", "0 to 0"]),
    ],
)
def test_unsupported_flags_are_refused(openmpi: Mpi, arguments: list[str], names: list[str]) -> None:
    finished = openmpi.run("all_reduce", *arguments, starter=[])
    assert finished.code == 2
    sentence = finished.sentence()
    assert all(name in sentence for name in names), sentence


def test_processes_that_mpi_does_not_connect_do_not_measure_alone(installed: Mpi) -> None:
    several = {"BUSBW_RANK": "0", "BUSBW_SIZE": "2"}
    finished = installed.run("all_reduce", *SMALL, starter=[], environment=several)
    assert finished.code == 2
    assert "MPI connects this one to no other" in finished.sentence()
    alone = installed.run("all_reduce", *SMALL, starter=[], environment={**several, "BUSBW_LAUNCHER": "none"})
    assert alone.code == 0, alone.stderr


@pytest.mark.parametrize("nodes", [1, 2])
def test_srun_starts_it(mpich: Mpi, slurm: Slurm, nodes: int) -> None:
    # On two nodes the addresses of MPICH's fastest ways are too long for what Slurm's PMI2 passes on.
    environment = {**slurm.with_slurm(), **({"UCX_TLS": "tcp,self"} if nodes > 1 else {})}
    finished = mpich.run(
        "all_reduce", *SMALL, starter=["srun", "--mpi=pmi2", "-N", str(nodes), "-n", "2"], environment=environment
    )
    assert finished.code == 0, finished.stderr
    assert "# Launched by slurm: 2 processes" in finished.stdout
    assert "# Out of bounds values : 0 OK" in finished.stdout


# ---- a rank is lost -----------------------------------------------------------------------------------------------

# Notes how the engine ended, and hides it from mpirun, which would kill the others first.
WITNESS = """\
trap '' TERM USR1
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
"$@"
echo $? > "exit.$rank.draft"
mv "exit.$rank.draft" "exit.$rank"
while [ ! -e exit.0 ] || [ ! -e exit.1 ]; do sleep 0.1; done
"""


@pytest.mark.parametrize("phase", ["initialisation", "timing", "report"])
def test_the_others_end_when_one_is_killed(installed: Mpi, phase: str) -> None:
    starter = [*installed.words(2), "sh", "-c", WITNESS, "sh"]
    finished = installed.run("all_reduce", *SMALL, "--fault", f"die:rank=1,phase={phase}", starter=starter)
    ends = [int((installed.here / f"exit.{rank}").read_text()) for rank in (0, 1)]
    assert ends == [4, 128 + signal.SIGKILL]
    (sentence,) = (line for line in complaints(finished.stderr) if line.startswith("all_reduce_perf: "))
    assert "rank 1 (process 1, pid " in sentence
    assert f"was lost in phase {phase}" in sentence
    # Of the last row something may still be on its way when the rank dies behind it. mpirun may write a word of its own
    # among the table's lines, when it is quicker than the witnesses.
    assert len(rows_by_blanks(finished.stdout)) in ({SMALL_ROWS - 1, SMALL_ROWS} if phase == "report" else {0})


@pytest.mark.parametrize("collective", ["all_reduce", "sendrecv"])
def test_the_others_end_when_one_hangs(installed: Mpi, collective: str) -> None:
    """Within MPI's own blocking call, and within the wait of an exchange."""
    finished = installed.run(
        collective, *SMALL, "-T", LIMIT_S, "--fault", "hang:rank=1,phase=timing", starter=installed.words(2)
    )
    assert finished.code == 4
    assert f"{collective}_perf: no rank made progress for {LIMIT_S} s: rank 1 on " in finished.stderr
    assert "did not get past phase timing" in finished.stderr
