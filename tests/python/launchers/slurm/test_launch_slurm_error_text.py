"""Error messages of Slurm 22.05.8 for rejected jobs, and their remedies."""

import pytest
from launch_jobs import GOLDEN

from busbw.launchers.slurm.error_text import NOT_STARTED, WAITS, last_errors, remedy_for

SAID = (GOLDEN / "slurm" / "said" / "refusals.txt").read_text()
REFUSALS = {part.partition("\n")[0]: part.partition("\n")[2] for part in SAID.split("# ")[1:]}


@pytest.mark.parametrize(
    ("command", "words", "remedy"),
    [
        (
            "sbatch -p nope",
            "invalid partition specified: nope; Batch job submission failed: Invalid partition name specified",
            "sinfo -s",
        ),
        ("sbatch --reservation=nope", "Batch job submission failed: Requested reservation is invalid", "--reservation"),
        ("sbatch -C nope", "Batch job submission failed: Invalid feature specification", "--constraint"),
        ("sbatch -w n9", "Batch job submission failed: Invalid node name specified", "sinfo -N"),
        (
            "sbatch --gpus-per-node=8",
            "Batch job submission failed: Requested node configuration is not available",
            "--gpus-per-node",
        ),
        ("sbatch --container-image=x", "unrecognized option '--container-image=x'", "Pyxis"),
        ("sbatch --nonsense", "unrecognized option '--nonsense'", "--slurm-arg"),
    ],
)
def test_the_error_line_and_the_remedy(command: str, words: str, remedy: str) -> None:
    assert last_errors(REFUSALS[command]) == words
    assert remedy in remedy_for(REFUSALS[command])


def test_every_recorded_rejection_has_its_own_remedy() -> None:
    assert len({remedy_for(text) for text in REFUSALS.values()}) == len(REFUSALS) == 7


def test_short_messages() -> None:
    assert last_errors("") == ""
    assert last_errors("sbatch: something happened\n") == "something happened"
    assert remedy_for("something happened") == "see Slurm's log for details"


@pytest.mark.parametrize(
    "line",
    [
        b"slurmstepd: error: execve(): /x/all_reduce_perf: No such file or directory\n",
        b"srun: error: Unable to allocate resources: Invalid partition name specified\n",
        b"srun: error: Invalid MPI type 'x', --mpi=list for acceptable types\n",
        b"srun: fatal: Could not establish a configuration source\n",
        b"srun: unrecognized option '--x'\n",
        b"slurmstepd: error: pyxis: child 1 failed with error code: 1\n",
    ],
)
def test_lines_which_say_that_nothing_was_started(line: bytes) -> None:
    assert NOT_STARTED.search(line)


@pytest.mark.parametrize(
    "line",
    [
        b"srun: error: n3: task 1: Exited with exit code 4\n",
        b"srun: error: n3: task 1: Killed\n",
        b"all_reduce_perf: rank 1 was lost\n",
    ],
)
def test_lines_on_the_end_of_a_program_that_ran(line: bytes) -> None:
    assert not NOT_STARTED.search(line)
    assert not WAITS.search(line)


@pytest.mark.parametrize(
    "line",
    [
        b"srun: job 6 queued and waiting for resources\n",
        b"srun: job 6 has been allocated resources\n",
        b"srun: Job step creation temporarily disabled, retrying (Requested nodes are busy)\n",
    ],
)
def test_lines_on_waiting(line: bytes) -> None:
    assert WAITS.search(line)
