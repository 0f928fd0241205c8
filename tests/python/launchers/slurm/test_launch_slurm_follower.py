"""Following a batch job by its files, with stand-ins for Slurm's commands; the real ones are in tests/integration."""

import os
import signal
from collections.abc import Callable, Iterator
from errno import EACCES, EDQUOT, ENOSPC
from pathlib import Path
from typing import Any

import pytest
from fake_slurm import FakeSlurm
from launch_jobs import GOLDEN

from busbw.errors import BusbwError
from busbw.launchers.job.job import LaunchCallbacks
from busbw.launchers.slurm import cancellation, commands, disk_space, follower
from busbw.launchers.slurm.files import FileTail
from busbw.launchers.slurm.follower import DetachedError, Follower
from busbw.launchers.slurm.start_limit import StartLimit
from busbw.launchers.slurm.status import JobStatus
from busbw.support.termination_signals import ReceivedSignals, collected_signals

SAID = GOLDEN / "slurm" / "said"
RUNNING = "RUNNING|2026-11-21T17:18:32|2|n[2,4]|None\n"


FOLDER_DELAY_S = follower._FOLDER_DELAY_S
NEVER_S = 3600.0
END = '# table\n{"kind":"end","exit_code":0}\n'
ENDING_STATUS = "interrupted: job 12 is ending; Ctrl-C again cancels it at once"
AWAY = "scancel: error: Unable to contact slurm controller (connect failure)\n"


class RecordedOutput:
    """Callbacks that record the output."""

    def __init__(self, on_wait: Callable[[], None] = lambda: None) -> None:
        self.lines: list[bytes] = []
        self.errors: list[str] = []
        self.statuses: list[str] = []
        self.callbacks = LaunchCallbacks(
            self.lines.append, on_wait, self.statuses.append, lambda line, _who: self.errors.append(line.decode())
        )


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("FAKE", str(folder))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(follower, "_FOLDER_DELAY_S", 1.0)
    return FakeSlurm(folder)


@pytest.fixture
def received() -> Iterator[ReceivedSignals]:
    with collected_signals() as received:
        yield received


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "job"
    path.mkdir()
    return path


def finish(folder: Path, code: int, *, out: str = "# table\n", error: str = "") -> None:
    (folder / "batch.log").write_text("")
    (folder / "step-1.out").write_text(out)
    (folder / "step-1.err").write_text(error)
    (folder / "step-1.code").write_text(f"{code}\n")


class TimedActions:
    """Actions while a step is followed: at most one per poll, each after its condition is true."""

    def __init__(self, *things: tuple[Callable[[], object], Callable[[], object]]) -> None:
        """Takes pairs of a condition and an action."""
        self._things = list(things)

    def __call__(self) -> None:
        if self._things and self._things[0][0]():
            self._things.pop(0)[1]()


def at_once() -> bool:
    return True


def no_action() -> None:
    """Does nothing."""


def gets(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def test_the_files_show_that_a_step_has_ended(fake: FakeSlurm, folder: Path, received: ReceivedSignals) -> None:
    finish(folder, 5, out='# table\n{"kind":"row"}\nhalf', error="a warning\n")
    output = RecordedOutput()
    assert Follower(folder, "12", 1, output.callbacks).follow(received) == 5
    assert output.lines == [b"# table\n", b'{"kind":"row"}\n', b"half"]
    assert output.errors == ["a warning\n"]
    assert fake.asked("squeue") == []


def test_the_queue_status_is_shown_until_the_first_line(
    fake: FakeSlurm, folder: Path, received: ReceivedSignals
) -> None:
    fake.says("squeue", "PENDING|N/A|2||Resources\n")
    waits = "job 12 waits for 2 nodes: Resources (its nodes are in use)"
    runs = "job 12 runs on n[2,4], no output yet"
    output = RecordedOutput(
        TimedActions(
            (lambda: waits in output.statuses, lambda: fake.says("squeue", RUNNING)),
            (lambda: runs in output.statuses, lambda: finish(folder, 0)),
        )
    )
    assert Follower(folder, "12", 1, output.callbacks).follow(received) == 0
    assert list(dict.fromkeys(output.statuses)) == [waits, runs, ""]
    assert fake.asked("scancel") == []


def test_a_job_that_its_partition_does_not_allow_is_cancelled_after_the_limit(
    fake: FakeSlurm, folder: Path, received: ReceivedSignals
) -> None:
    fake.says("squeue", "PENDING|N/A|9||PartitionNodeLimit\n")
    message = (
        "job 12 could not start for 1 s and was canceled: PartitionNodeLimit .*; or wait longer with --pending-tim"
    )
    with pytest.raises(BusbwError, match=message) as raised:
        Follower(folder, "12", 1, RecordedOutput().callbacks, pending_limit_s=1).follow(received)
    assert raised.value.exit_code == 3
    assert fake.asked("scancel") == ["scancel 12"]


def test_a_start_limit_begins_anew_after_another_reason(fake: FakeSlurm) -> None:
    clock = [0.0]
    limit = StartLimit(60, now_s=lambda: clock[0])
    for now_s, reason in ((0, "PartitionConfig"), (50, "Resources"), (55, "PartitionConfig"), (114, "PartitionConfig")):
        clock[0] = now_s
        limit.check("12", JobStatus("PENDING", reason))
    clock[0] = 115.0
    with pytest.raises(BusbwError, match="for 60 s"):
        limit.check("12", JobStatus("PENDING", "PartitionConfig"))
    unlimited = StartLimit(0, now_s=lambda: clock[0])
    for clock[0] in (0.0, 1e6):
        unlimited.check("12", JobStatus("PENDING", "PartitionConfig"))


def test_a_job_that_can_never_start_is_cancelled(fake: FakeSlurm, folder: Path, received: ReceivedSignals) -> None:
    fake.says("squeue", "PENDING|N/A|2||BadConstraints\n")
    with pytest.raises(
        BusbwError, match=r"can never start and was canceled: BadConstraints .*; change the requested"
    ) as raised:
        Follower(folder, "12", 1, RecordedOutput().callbacks).follow(received)
    assert raised.value.exit_code == 3
    assert fake.asked("scancel") == ["scancel 12"]


def test_a_scheduler_that_is_down_for_a_while(fake: FakeSlurm, folder: Path, received: ReceivedSignals) -> None:
    away = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    fake.says("squeue", error=away, code=1)
    fake.says("scontrol", error=away, code=1)
    output = RecordedOutput(TimedActions((lambda: output.statuses, lambda: finish(folder, 0))))
    assert Follower(folder, "12", 1, output.callbacks).follow(received) == 0
    assert output.statuses[0].startswith("Slurm does not answer: slurm_load_jobs error: Unable to contact")


def test_a_scheduler_that_stays_down(
    fake: FakeSlurm, folder: Path, received: ReceivedSignals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_SLURM_SILENCE_LIMIT_S", 0.0)
    fake.says("squeue", code=1)
    fake.says("scontrol", error="Unable to contact slurm controller\n", code=1)
    with pytest.raises(commands.SlurmUnreachableError, match=f"continue later: busbw launch attach {folder}"):
        Follower(folder, "12", 1, RecordedOutput().callbacks).follow(received)


def test_a_job_that_slurm_has_forgotten(fake: FakeSlurm, folder: Path, received: ReceivedSignals) -> None:
    fake.forgets()
    (folder / "batch.log").write_text("slurmstepd: error: *** JOB 12 CANCELLED DUE TO TIME LIMIT ***\n")
    (folder / "step-1.out").write_text("# table\n")
    output = RecordedOutput()
    assert Follower(folder, "12", 1, output.callbacks).follow(received) == 4
    assert output.lines == [b"# table\n"]
    assert output.errors == [
        f"busbw: {folder} is kept; busbw launch attach {folder} shows later output\n",
        "busbw: Slurm no longer knows job 12, and its program left no exit code\n",
        "slurmstepd: error: *** JOB 12 CANCELLED DUE TO TIME LIMIT ***\n",
    ]


def test_an_exit_code_that_a_shared_folder_shows_late(
    fake: FakeSlurm, folder: Path, received: ReceivedSignals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_FOLDER_DELAY_S", FOLDER_DELAY_S)
    fake.forgets()
    output = RecordedOutput(TimedActions((lambda: output.statuses, lambda: finish(folder, 5))))
    assert Follower(folder, "12", 1, output.callbacks).follow(received) == 5
    assert output.errors == []


def test_a_node_that_failed_is_named(fake: FakeSlurm, folder: Path, received: ReceivedSignals) -> None:
    fake.says("squeue", "NODE_FAIL|N/A|2|n[2,4]|None\n")
    fake.says("scontrol", (SAID / "scontrol_node_fail.txt").read_text())
    fake.says("sinfo", (SAID / "sinfo_nodes.txt").read_text())
    (folder / "batch.log").write_text("")
    output = RecordedOutput()
    assert Follower(folder, "13", 1, output.callbacks).follow(received) == 4
    assert output.errors == ["busbw: Slurm ended job 13: NODE_FAIL (n4 is down: Not responding), a node failed\n"]
    assert fake.asked("sinfo")[0].startswith("sinfo --noheader --Node --nodes=n[2,4]")


def test_a_folder_that_is_not_shared(fake: FakeSlurm, folder: Path, received: ReceivedSignals) -> None:
    fake.says("squeue", code=1)
    fake.says("scontrol", (SAID / "scontrol_completed.txt").read_text())
    output = RecordedOutput()
    output_follower = Follower(folder, "11", 1, output.callbacks)
    with pytest.raises(
        BusbwError, match=r"shows no file from n\[1,3\]; set --output-folder to one shared with the nodes"
    ):
        output_follower.follow(received)
    assert not output_follower.is_complete
    assert f"job 11 has ended; waiting up to 1 s for {folder} to show step-1.code" in output.statuses


def completed(fake: FakeSlurm) -> None:
    fake.says("squeue", code=1)
    fake.says("scontrol", (SAID / "scontrol_completed.txt").read_text())


def test_a_folder_has_the_time_that_nfs_takes() -> None:
    assert FOLDER_DELAY_S > 60  # acdirmax of nfs(5), where nobody chose another


def test_a_good_end_whose_exit_code_never_shows(fake: FakeSlurm, folder: Path, received: ReceivedSignals) -> None:
    completed(fake)
    (folder / "batch.log").write_text("")
    (folder / "step-1.out").write_text(END)
    output = RecordedOutput()
    output_follower = Follower(folder, "11", 1, output.callbacks)
    assert output_follower.follow(received) == 0
    assert len(output.lines) == 2
    assert not output_follower.is_complete  # nobody knows what stderr had to say


def test_a_job_that_was_cut_short_has_shown_all(fake: FakeSlurm, folder: Path, received: ReceivedSignals) -> None:
    fake.says("squeue", "NODE_FAIL|N/A|2|n[2,4]|None\n")
    fake.says("scontrol", (SAID / "scontrol_node_fail.txt").read_text())
    (folder / "batch.log").write_text("")
    output_follower = Follower(folder, "13", 1, RecordedOutput().callbacks)
    assert output_follower.follow(received) == 4
    assert output_follower.is_complete


class Nfs:
    """Files seen through NFS: one that was opened before it was there stays missing until its folder is looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.missed: set[Path] = set()
        self._open, self._scandir = Path.open, os.scandir
        monkeypatch.setattr(Path, "open", lambda path, *words, **more: self.open(path, *words, **more))
        monkeypatch.setattr(os, "scandir", self.scandir)

    def open(self, path: Path, *words: Any, **more: Any) -> Any:
        if path in self.missed:
            raise FileNotFoundError(path)
        try:
            return self._open(path, *words, **more)
        except FileNotFoundError:
            self.missed.add(path)
            raise

    def scandir(self, path: Path) -> Any:
        self.missed.clear()
        return self._scandir(path)


def test_files_that_nfs_reported_as_missing(
    fake: FakeSlurm, folder: Path, received: ReceivedSignals, monkeypatch: pytest.MonkeyPatch
) -> None:
    nfs = Nfs(monkeypatch)
    monkeypatch.setattr(follower, "_FOLDER_DELAY_S", FOLDER_DELAY_S)
    fake.says("squeue", RUNNING)

    def finish_without_a_look() -> None:
        for name, text in (("batch.log", ""), ("step-1.out", END), ("step-1.code", "0\n")):
            descriptor = os.open(folder / name, os.O_CREAT | os.O_WRONLY)
            os.write(descriptor, text.encode())
            os.close(descriptor)
        completed(fake)

    with pytest.raises(FileNotFoundError):  # as another program here may have asked for it
        (folder / "step-1.code").read_text()
    assert nfs.missed
    output = RecordedOutput(TimedActions((lambda: fake.asked("squeue"), finish_without_a_look)))
    output_follower = Follower(folder, "11", 1, output.callbacks)
    assert output_follower.follow(received) == 0
    assert output_follower.is_complete
    assert len(output.lines) == 2
    assert output.errors == []


def test_an_interrupt_ends_the_ranks_in_good_order_and_then_without(
    fake: FakeSlurm, folder: Path, received: ReceivedSignals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancellation, "_ORDERLY_END_LIMIT_S", 0.0)
    fake.says("squeue", RUNNING)
    output = RecordedOutput(
        TimedActions(
            (at_once, gets(signal.SIGINT)), (lambda: len(fake.asked("scancel")) == 2, lambda: finish(folder, 143))
        )
    )
    assert Follower(folder, "12", 1, output.callbacks).follow(received) == 130
    assert fake.asked("scancel") == ["scancel --signal=INT 12", "scancel 12"]
    assert ENDING_STATUS in output.statuses


def test_the_second_interrupt_cancels_at_once(
    fake: FakeSlurm, folder: Path, received: ReceivedSignals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancellation, "_ORDERLY_END_LIMIT_S", NEVER_S)
    fake.says("squeue", RUNNING)
    output = RecordedOutput(
        TimedActions(
            (at_once, gets(signal.SIGTERM)),
            (lambda: len(fake.asked("scancel")) == 1, gets(signal.SIGINT)),
            (lambda: len(fake.asked("scancel")) == 2, lambda: finish(folder, 143)),
        )
    )
    assert Follower(folder, "12", 1, output.callbacks).follow(received) == 143
    assert fake.asked("scancel") == ["scancel --signal=INT 12", "scancel 12"]


def test_a_second_interrupt_that_comes_while_slurm_is_told_of_the_first_cancels_too(
    fake: FakeSlurm, folder: Path, received: ReceivedSignals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancellation, "_ORDERLY_END_LIMIT_S", NEVER_S)
    fake.says("squeue", RUNNING)
    asking = "interrupted: asking Slurm to end job 12"
    output = RecordedOutput(
        TimedActions(
            (at_once, gets(signal.SIGINT)),
            (lambda: asking in output.statuses and not fake.asked("scancel"), gets(signal.SIGINT)),
            (lambda: ENDING_STATUS in output.statuses, no_action),
            (at_once, no_action),
            (at_once, no_action),
            (at_once, lambda: finish(folder, 143)),
        )
    )
    assert Follower(folder, "12", 1, output.callbacks).follow(received) == 130
    assert fake.asked("scancel") == ["scancel --signal=INT 12", "scancel 12"]


def test_an_interrupt_is_repeated_until_slurm_hears_it(
    fake: FakeSlurm, folder: Path, received: ReceivedSignals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancellation, "_ORDERLY_END_LIMIT_S", NEVER_S)
    fake.says("squeue", RUNNING)
    fake.says("scancel", error=AWAY, code=1)
    os.kill(os.getpid(), signal.SIGINT)
    output = RecordedOutput(
        TimedActions(
            (lambda: len(fake.asked("scancel")) > 1, lambda: fake.says("scancel")),
            (lambda: ENDING_STATUS in output.statuses, lambda: finish(folder, 130)),
        )
    )
    assert Follower(folder, "12", 1, output.callbacks).follow(received) == 130
    asked = fake.asked("scancel")
    assert len(asked) > 2
    assert set(asked) == {"scancel --signal=INT 12"}
    why = "Unable to contact slurm controller (connect failure)"
    assert output.errors == [f"busbw: interrupted, but job 12 continues: {why}; retrying\n"]
    assert ENDING_STATUS in output.statuses


def test_three_interrupts_without_slurm(fake: FakeSlurm, folder: Path, received: ReceivedSignals) -> None:
    fake.says("squeue", code=1)
    fake.says("scontrol", error=AWAY, code=1)
    fake.says("scancel", error=AWAY, code=1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)
        received.wait(10.0)
    with pytest.raises(commands.SlurmUnreachableError, match=r"job 12 may continue: .*; cancel it later: scancel 12"):
        Follower(folder, "12", 1, RecordedOutput().callbacks).follow(received)


def test_a_cancelled_job_that_does_not_end_is_cancelled_again(
    fake: FakeSlurm, folder: Path, received: ReceivedSignals, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_ORDERLY_END_LIMIT_S", "_RETRY_S"):
        monkeypatch.setattr(cancellation, name, 0.0)
    fake.says("squeue", RUNNING)
    os.kill(os.getpid(), signal.SIGINT)
    output = RecordedOutput(TimedActions((lambda: len(fake.asked("scancel")) > 2, lambda: finish(folder, 130))))
    assert Follower(folder, "12", 1, output.callbacks).follow(received) == 130
    first, *again = fake.asked("scancel")
    assert first == "scancel --signal=INT 12"
    assert len(again) > 1
    assert set(again) == {"scancel 12"}


def test_a_closed_reader_without_slurm(
    fake: FakeSlurm, folder: Path, received: ReceivedSignals, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.says("squeue", RUNNING)
    fake.says("scancel", error=AWAY, code=1)
    (folder / "step-1.out").write_text("# table\n")
    hears = TimedActions((lambda: len(fake.asked("scancel")) > 1, lambda: fake.says("scancel")))
    monkeypatch.setattr(received, "wait", lambda _limit_s: hears())  # nothing is shown meanwhile that would look

    def nobody_reads(_line: bytes) -> None:
        raise BrokenPipeError

    output_follower = Follower(folder, "12", 1, LaunchCallbacks(nobody_reads, lambda: None))
    assert output_follower.follow(received) == 141
    assert fake.asked("scancel") == ["scancel 12"] * 3
    assert output_follower.is_complete


def test_a_lost_terminal_cancels_nothing(fake: FakeSlurm, folder: Path, received: ReceivedSignals) -> None:
    fake.says("squeue", RUNNING)
    output = RecordedOutput(TimedActions((at_once, gets(signal.SIGHUP))))
    with pytest.raises(DetachedError):
        Follower(folder, "12", 1, output.callbacks).follow(received)
    assert fake.asked("scancel") == []


def test_a_closed_reader_cancels(fake: FakeSlurm, folder: Path, received: ReceivedSignals) -> None:
    fake.says("squeue", RUNNING)
    (folder / "step-1.out").write_text("# table\n")

    def nobody_reads(_line: bytes) -> None:
        raise BrokenPipeError

    assert Follower(folder, "12", 1, LaunchCallbacks(nobody_reads, lambda: None)).follow(received) == 141
    assert fake.asked("scancel") == ["scancel 12"]


def test_signal_handlers_are_restored() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with collected_signals() as received:
        os.kill(os.getpid(), signal.SIGHUP)
        received.wait(10.0)
        assert received == [signal.SIGHUP]
    assert [signal.getsignal(number) for number in numbers] == before


def test_an_interrupt_that_came_before_the_job_had_an_id(
    fake: FakeSlurm, folder: Path, received: ReceivedSignals
) -> None:
    fake.says("squeue", "PENDING|N/A|2||Resources\n")
    os.kill(os.getpid(), signal.SIGINT)
    output = RecordedOutput(TimedActions((lambda: fake.asked("scancel"), fake.forgets)))
    assert Follower(folder, "12", 1, output.callbacks).follow(received) == 130
    assert fake.asked("scancel") == ["scancel 12"]


def test_a_full_folder_is_named_at_once(
    fake: FakeSlurm, folder: Path, received: ReceivedSignals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_FOLDER_DELAY_S", NEVER_S)
    monkeypatch.setattr(disk_space, "is_full", lambda at: at == folder)
    fake.says("squeue")
    fake.says("scontrol", (SAID / "scontrol_failed.txt").read_text())
    (folder / "step-1.out").write_text("# table\nhalf")
    output = RecordedOutput()
    output_follower = Follower(folder, "12", 1, output.callbacks)
    with pytest.raises(BusbwError, match="no space left in ") as raised:
        output_follower.follow(received)
    assert raised.value.exit_code == 3
    assert output.lines == [b"# table\n", b"half"]
    assert not output_follower.is_complete


@pytest.mark.parametrize(("error", "full"), [(ENOSPC, True), (EDQUOT, True), (EACCES, False), (0, False)])
def test_detection_of_a_full_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, full: bool) -> None:
    def sync(_descriptor: int) -> None:
        if error:
            raise OSError(error, "as the disk says")

    monkeypatch.setattr(os, "fsync", sync)
    assert disk_space.is_full(tmp_path) is full
    assert list(tmp_path.iterdir()) == []


def test_the_output_of_a_restarted_job_is_not_mixed(fake: FakeSlurm, folder: Path, received: ReceivedSignals) -> None:
    fake.says("squeue", RUNNING)
    (folder / "batch.log").write_text("")
    (folder / "step-1.out").write_text("# table\n# another\n")
    output = RecordedOutput(TimedActions((at_once, lambda: (folder / "step-1.out").write_text("# table\n"))))
    output_follower = Follower(folder, "12", 1, output.callbacks)
    with pytest.raises(BusbwError, match=r"step-1\.out became shorter: Slurm restarted the job"):
        output_follower.follow(received)
    assert output.lines == [b"# table\n", b"# another\n"]
    assert not output_follower.is_complete  # its folder stays


def test_a_file_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "out"
    lines: list[bytes] = []
    tail = FileTail(path, lines.append)
    tail.read()
    assert lines == []
    with path.open("wb", buffering=0) as stream:
        stream.write(b"one\ntw")
        tail.read()
        assert lines == [b"one\n"]
        stream.write(b"o\n" + b"x" * 100_000)
        tail.read()
        assert lines == [b"one\n", b"two\n"]
        tail.read(at_end=True)
        assert lines[2:] == [b"x" * 100_000]
        tail.read(at_end=True)
        assert len(lines) == 3
