"""The exit code of a run in Slurm, told from what srun makes of it."""

import pytest

from busbw.errors import BusbwError
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.slurm.exit_code import NodesNotStartedError, StepOutput, resolve_exit_code

END = b'{"kind":"end","exit_code":%d,"rows":1,"wrong_rows":0,"wall_s":1.5}\n'


class Run:
    """Output of a run, and the part that was forwarded."""

    def __init__(self, *, out: list[bytes] | None = None, errors: list[bytes] | None = None) -> None:
        self.lines: list[bytes] = []
        self.errors: list[bytes] = []
        self.heard = StepOutput(
            LaunchCallbacks(self.lines.append, lambda: None, on_error=lambda line, _who: self.errors.append(line))
        )
        for line in out or []:
            self.heard.forward_line(line)
        for line in errors or []:
            self.heard.forward_error(line)


@pytest.mark.parametrize(
    ("srun", "recorded", "code"),
    [
        (0, 0, 0),
        (0, None, 0),  # --help, say
        (1, 1, 1),
        (5, 5, 5),
        (4, 4, 4),
        (3, None, 3),
        (2, None, 2),
        (130, 130, 130),
        (143, None, 143),
        (137, 4, 4),  # a rank was killed, and process 0 saw it
        (137, None, 4),  # process 0 itself was killed
        (139, None, 4),
        (9, None, 4),
        (137, 3, 3),  # process 0 knows why the others had to end
        (4, 0, 4),  # lost after the last row
        (1, 0, 1),
        (6, None, 6),  # a search is undecided
    ],
)
def test_the_recorded_exit_code_has_priority(srun: int, recorded: int | None, code: int) -> None:
    out = [b"# table\n", *([END % recorded] if recorded is not None else [])]
    assert resolve_exit_code(srun, Run(out=out).heard) == code


def test_a_lost_process_is_named_by_its_signal() -> None:
    run = Run(out=[b"# table\n"])
    resolve_exit_code(137, run.heard)
    assert run.errors == [b"busbw: ended by SIGKILL: a process of the job was lost\n"]
    run = Run()
    resolve_exit_code(77, run.heard)
    assert run.errors == [b"busbw: exit code 77: a process of the job was lost\n"]


@pytest.mark.parametrize(
    ("srun", "errors", "words"),
    [
        (1, [b"srun: error: Unable to create step for job 5: Memory required by task is not available\n"], "Memory"),
        (2, [b"slurmstepd: error: execve(): x: No such file or directory\n"], "--program-path"),
        (1, [], "srun failed"),
        (127, [b"sh: 1: /x/all_reduce_perf: not found\n"], "program not found on the nodes"),
        (126, [], "program not found on the nodes"),
    ],
)
def test_a_program_that_was_not_started(srun: int, errors: list[bytes], words: str) -> None:
    with pytest.raises(BusbwError, match=words) as raised:
        resolve_exit_code(srun, Run(errors=errors).heard)
    assert raised.value.exit_code == 3


def test_lines_come_through_and_what_we_caused_ourselves_does_not() -> None:
    run = Run(
        out=[b"# table\n", b"{broken\n", b'{"kind":"end"}\n'],
        errors=[b"srun: cluster configuration lacks support for cpu binding\n", b"a warning\n"],
    )
    assert run.lines == [b"# table\n", b"{broken\n", b'{"kind":"end"}\n']
    assert run.errors == [b"a warning\n"]
    assert run.heard.recorded_exit_code is None


def test_the_end_of_a_search_has_its_exit_code() -> None:
    """srun reports a node that did not start only after the search, and then fails itself (Slurm 22.05)."""
    end = b'{"kind":"search_end","exit_code":5,"message":null,"answer":"","result":{},"end_time":""}\n'
    errors = [b"srun: error: Task launch for StepId=1.0 failed on node n2: Communication connection failure\n"]
    assert resolve_exit_code(233, Run(out=[end], errors=errors).heard) == 5


def test_nodes_that_did_not_start_are_named() -> None:
    errors = [
        b"srun: error: Task launch for StepId=1.0 failed on node n2: Communication connection failure\n",
        b"srun: error: Task launch for StepId=1.0 failed on node gpu-a03: Unspecified error\n",
        b"srun: error: Application launch failed: Communication connection failure\n",
    ]
    with pytest.raises(NodesNotStartedError) as raised:
        resolve_exit_code(233, Run(errors=errors).heard)
    assert raised.value.reasons == {
        "n2": "Slurm could not start its tasks: Communication connection failure",
        "gpu-a03": "Slurm could not start its tasks: Unspecified error",
    }
