"""srun run from here, with stand-ins for it and for Slurm's other commands; the real ones are in tests/integration."""

import os
import signal
from pathlib import Path

import pytest
from fake_slurm import FakeSlurm

from busbw.launchers.job.job import Command, LaunchCallbacks
from busbw.launchers.slurm import srun

NAME = "busbw-all-reduce-1a2b3c"
AWAY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
SRUN = """#!/bin/sh
trap 'echo TERM >>"$FAKE/srun.told"; exit 143' TERM
trap 'echo USR2 >>"$FAKE/srun.told"; exit 137' USR2
trap 'echo USR1 >>"$FAKE/srun.told"
  [ ! -e "$FAKE/srun.answers" ] || echo "# end"
  [ ! -e "$FAKE/srun.heeds" ] || exit 130' USR1
if [ -e "$FAKE/srun.waits" ]; then : >"$FAKE/srun.up"; else echo "# table"; fi
for _ in $(seq 600); do [ -e "$FAKE/srun.end" ] && exit 130; sleep 0.1; done
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "srun").write_text(SRUN)
    (tmp_path / "srun").chmod(0o755)
    (tmp_path / "srun.told").touch()
    return FakeSlurm(tmp_path)


def told(fake: FakeSlurm) -> list[str]:
    return (fake.folder / "srun.told").read_text().split()


def interrupted(*, waits: bool = False) -> tuple[int, list[str], list[str]]:
    """The exit code of a run that a Ctrl-C comes to at its first line; its statuses, and what stderr says.

    Args:
        waits: There is no first line, because no rank runs yet; it comes while srun waits.
    """
    statuses: list[str] = []
    errors: list[str] = []

    folder = Path(os.environ["FAKE"])
    if waits:
        (folder / "srun.waits").touch()

    def interrupt(_line: bytes) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def interrupt_if_up() -> None:
        if (folder / "srun.up").exists():
            (folder / "srun.up").unlink()
            interrupt(b"")

    callbacks = LaunchCallbacks(
        interrupt, interrupt_if_up, statuses.append, lambda line, _who: errors.append(line.decode())
    )
    return srun.run_srun(Command(("srun",)), (), NAME, callbacks), statuses, errors


def test_an_interrupt_goes_to_running_ranks_by_srun_alone(fake: FakeSlurm) -> None:
    (fake.folder / "srun.heeds").touch()
    code, _, errors = interrupted()
    assert code == 130
    assert told(fake) == ["USR1"]
    assert not any("--signal" in asked for asked in fake.asked("scancel"))
    assert errors == []


def test_an_end_without_slurm_reports_possible_remains(fake: FakeSlurm) -> None:
    (fake.folder / "srun.heeds").touch()
    for name in ("squeue", "scancel"):
        fake.says(name, error=AWAY, code=1)
    code, _, errors = interrupted()
    assert code == 130
    assert told(fake) == ["USR1"]
    (said,) = errors
    assert "all processes have ended" in said
    assert f"scancel --name={NAME}" in said


def test_ranks_that_do_not_end_while_slurm_is_away_are_ended_by_srun(
    fake: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(srun, "_ORDERLY_END_LIMIT_S", 0.3)
    fake.says("squeue", error=AWAY, code=1)
    fake.says("scancel", error=AWAY, code=1)
    code, statuses, errors = interrupted()
    assert code == 130
    assert told(fake) == ["USR1", "USR2"]
    assert any(status.startswith("interrupted; ending srun: ") for status in statuses)
    assert any("check `squeue --steps` for running steps" in error for error in errors)


@pytest.mark.parametrize("heeds", [True, False])
def test_a_closed_reader_interrupts_running_ranks_with_or_without_slurm(
    fake: FakeSlurm, monkeypatch: pytest.MonkeyPatch, *, heeds: bool
) -> None:
    for name in ("squeue", "scancel"):
        fake.says(name, error=AWAY, code=1)
    if heeds:
        (fake.folder / "srun.heeds").touch()
    else:
        monkeypatch.setattr(srun, "_ORDERLY_END_LIMIT_S", 0.3)
    errors: list[bytes] = []

    def nobody_reads(_line: bytes) -> None:
        raise BrokenPipeError

    callbacks = LaunchCallbacks(
        nobody_reads, lambda: None, lambda _status: None, lambda line, _who: errors.append(line)
    )
    assert srun.run_srun(Command(("srun",)), (), NAME, callbacks) == 141
    assert told(fake) == (["USR1"] if heeds else ["USR1", "USR2"])
    assert len(errors) == 1


def test_a_reader_that_closes_after_an_interrupt_decides_the_exit_code(fake: FakeSlurm) -> None:
    (fake.folder / "srun.answers").touch()
    lines: list[bytes] = []

    def read_one_line(line: bytes) -> None:
        lines.append(line)
        if len(lines) > 1:
            raise BrokenPipeError
        os.kill(os.getpid(), signal.SIGINT)

    def end_after_both() -> None:
        if len(lines) > 1:
            (fake.folder / "srun.end").touch()

    callbacks = LaunchCallbacks(read_one_line, end_after_both, lambda _status: None, lambda _line, _who: None)
    assert srun.run_srun(Command(("srun",)), (), NAME, callbacks) == 141
    assert len(lines) > 1


def test_an_interrupt_while_slurms_commands_hang_ends_srun(fake: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_ANSWER_LIMIT_S", "_STEP_ANSWER_LIMIT_S"):
        monkeypatch.setattr(f"busbw.launchers.slurm.commands.{name}", 0.3)
    for name in ("squeue", "scancel"):
        (fake.folder / name).write_text("#!/bin/sh\nexec sleep 60\n")
    assert interrupted(waits=True)[0] == 130
    assert told(fake) == ["TERM"]


def test_an_interrupt_before_there_is_a_step_ends_srun(fake: FakeSlurm) -> None:
    assert interrupted(waits=True)[0] == 130
    assert told(fake) == ["TERM"]


def test_an_interrupt_before_the_first_line_goes_to_the_step_where_slurm_answers(fake: FakeSlurm) -> None:
    fake.says("squeue", f"12.0 {NAME}\n")
    (fake.folder / "scancel").write_text((fake.folder / "scancel").read_text() + '\ntouch "$FAKE/srun.end"\n')
    text = (fake.folder / "scancel").read_text().replace("exit ", ": ")
    (fake.folder / "scancel").write_text(text)
    code, _, errors = interrupted(waits=True)
    assert code == 130
    assert fake.asked("scancel")[0] == "scancel --signal=INT 12.0"
    assert told(fake) == []
    assert errors == []


def test_a_step_that_does_not_end_is_cancelled_and_then_srun_is_ended(
    fake: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(srun, "_ORDERLY_END_LIMIT_S", 0.3)
    fake.says("squeue", f"12.0 {NAME}\n")
    assert interrupted()[0] == 130
    assert fake.asked("scancel")[0] == "scancel 12.0"
    assert told(fake) == ["USR1", "USR2"]
