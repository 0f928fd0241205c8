"""Processes that a launcher starts: their output, interrupts, failures, and that none is left behind."""

import ctypes
import os
import select
import selectors
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest
from polling import HANG_GUARD_S, is_running, wait_until

from busbw.errors import BusbwError
from busbw.launchers import Command, LaunchCallbacks, PrivateFile
from busbw.launchers.job import child_processes, command_start
from busbw.launchers.job.command_start import ExitStatus
from busbw.launchers.job.grace_period import GracePeriod
from busbw.launchers.job.processes import TerminationPolicy, crash_message, job_exit_code, run_all, written_files


def shell(script: str, *, label: int | str | None = None, **more: object) -> Command:
    return Command(("/bin/sh", "-c", script), label=label, **more)  # type: ignore[arg-type]


class RecordedOutput:
    """Callbacks that record the output."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.errors: list[tuple[bytes, int | str | None]] = []
        self.statuses: list[str] = []
        self.callbacks = LaunchCallbacks(
            self.lines.append,
            lambda: None,
            self.statuses.append,
            lambda line, who: self.errors.append((line, who)),
        )


def test_only_the_first_ones_stdout_is_the_jobs() -> None:
    output = RecordedOutput()
    ended = run_all([shell("echo a; echo b"), shell("echo c"), shell("printf d")], output.callbacks)
    assert ended == [ExitStatus(0)] * 3
    assert output.lines == [b"a\n", b"b\n"]


def test_the_number_of_connecting_commands_is_limited(tmp_path: Path) -> None:
    begin = 'echo begin >>"$0"; sleep 0.5; echo end >>"$0"; echo here; sleep 0.5'
    commands = [Command(("/bin/sh", "-c", begin, str(tmp_path / "log"))) for _ in range(7)]
    assert run_all(commands, RecordedOutput().callbacks, max_connecting=3) == [ExitStatus(0)] * 7
    now = most = 0
    for line in (tmp_path / "log").read_text().split():
        now += 1 if line == "begin" else -1
        most = max(most, now)
    assert 1 < most <= 3


def test_a_silent_command_delays_others_only_briefly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_start, "_CONNECT_LIMIT_S", 0.3)
    log = tmp_path / "log"
    silent = Command(("/bin/sh", "-c", 'echo begin >>"$0"; sleep 3; echo end >>"$0"', str(log)))
    assert run_all([silent] * 2, RecordedOutput().callbacks, max_connecting=1) == [ExitStatus(0)] * 2
    assert log.read_text().split() == ["begin", "begin", "end", "end"]


def test_an_interrupt_that_raises_starts_no_more_commands(tmp_path: Path) -> None:
    def break_off() -> int:
        raise KeyboardInterrupt

    kill = shell(f"kill -INT {os.getpid()}; sleep 60")
    more = Command(("/bin/sh", "-c", 'echo begin >>"$0"; sleep 60', str(tmp_path / "log")))
    with pytest.raises(KeyboardInterrupt):
        run_all(
            [kill, *[more] * 5], RecordedOutput().callbacks, TerminationPolicy(on_interrupt=break_off), max_connecting=1
        )
    assert not (tmp_path / "log").exists()


def test_an_interrupt_between_two_starts_reaches_all(tmp_path: Path) -> None:
    kill = f"kill -INT {os.getpid()}; exec sleep 60"
    commands = [shell(kill), *(shell("exec sleep 60") for _ in range(3))]
    assert [each.code for each in run_all(commands, RecordedOutput().callbacks, max_connecting=1)] == [130] * 4


def test_bytes_are_forwarded_unchanged() -> None:
    output = RecordedOutput()
    run_all([shell(r"printf '\377\0 x\r\n'; printf 'no end'")], output.callbacks)
    assert output.lines == [b"\xff\0 x\r\n", b"no end"]


def test_each_line_of_stderr_has_its_process() -> None:
    output = RecordedOutput()
    run_all(
        [shell("echo zero >&2", label=0), shell("echo one >&2", label="node1"), shell("echo two >&2")],
        output.callbacks,
    )
    assert sorted(output.errors, key=str) == [(b"one\n", "node1"), (b"two\n", None), (b"zero\n", 0)]


def test_a_long_line_comes_whole() -> None:
    output = RecordedOutput()
    run_all([shell("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end")], output.callbacks)
    assert [len(line) for line in output.lines] == [3_000_001, 4]


def test_a_leftover_process_with_an_open_pipe_does_not_block() -> None:
    output = RecordedOutput()
    start_s = time.monotonic()
    assert run_all([shell("echo here; sleep 600 & echo $! >&2")], output.callbacks) == [ExitStatus(0)]
    assert time.monotonic() - start_s < HANG_GUARD_S
    assert output.lines == [b"here\n"]
    os.kill(int(output.errors[0][0]), signal.SIGKILL)


def test_a_closed_reader_is_passed_on() -> None:
    def gone(_line: bytes) -> None:
        raise BrokenPipeError

    endless = shell("trap '' PIPE; while echo x; do :; done 2>/dev/null; exit 141")
    assert run_all([endless], LaunchCallbacks(gone, lambda: None)) == [ExitStatus(141)]


def test_the_incomplete_line_of_a_closed_stdout_is_no_error(tmp_path: Path) -> None:
    lines: list[bytes] = []
    errors: list[bytes] = []
    closed = tmp_path / "closed"

    def on_wait() -> None:
        if lines:
            closed.touch()
            raise BrokenPipeError

    script = f"printf 'row\nincomplete'; until [ -e {closed} ]; do sleep 0.02; done; echo message >&2"
    callbacks = LaunchCallbacks(lines.append, on_wait, on_error=lambda line, _who: errors.append(line))
    assert run_all([shell(script)], callbacks) == [ExitStatus(0)]
    assert (lines, errors) == ([b"row\n"], [b"message\n"])


@pytest.mark.parametrize("hears_errors", [True, False])
@pytest.mark.parametrize("is_late", [False, True])
def test_output_during_a_pause_arrives_after_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, hears_errors: bool, is_late: bool
) -> None:
    if is_late:
        monkeypatch.setattr(child_processes, "_DRAIN_S", -1.0)  # as if this process had been stopped for a while
    lines: list[bytes] = []
    paused = tmp_path / "paused"

    def is_behind() -> bool:
        if lines:
            paused.touch()  # this answer takes stdout away, and only then is the rest said
        return bool(lines)

    says_more = f"echo first; until [ -e {paused} ]; do sleep 0.02; done; seq 5000; printf 'no end'"
    on_error = (lambda _line, _who: None) if hears_errors else None
    callbacks = LaunchCallbacks(lines.append, lambda: None, on_error=on_error, is_backlogged=is_behind)
    assert run_all([shell(says_more)], callbacks) == [ExitStatus(0)]
    assert lines == [b"first\n", *(b"%d\n" % number for number in range(1, 5001)), b"no end"]


def test_stdin_is_given_and_stays_open() -> None:
    output = RecordedOutput()
    reads = "read -r first; echo $first; read -r -t 1 second; echo $?"
    run_all([Command(("/bin/bash", "-c", reads), stdin="a word\n")], output.callbacks)
    assert output.lines[0] == b"a word\n"
    assert int(output.lines[1]) > 128  # the time was over: not the end of the input, which is 1


def test_a_signal_is_an_exit_code_beyond_128() -> None:
    assert run_all([shell("kill -SEGV $$")]) == [ExitStatus(139)]


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BusbwError, match="cannot start /nowhere/program: No such file"):
        run_all([Command(("/nowhere/program",))])
    started = tmp_path / "started"
    with pytest.raises(BusbwError):
        run_all(
            [shell(f"sleep 600 & echo $! > {started}; wait"), Command(("/nowhere/program",))],
            RecordedOutput().callbacks,
        )


STARTS_MANY = """
import resource
from busbw.errors import BusbwError
from busbw.launchers import Command, LaunchCallbacks
from busbw.launchers.job.processes import run_all
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
try:
    ended = run_all([Command(("sleep", "0.2"))] * 30, LaunchCallbacks(lambda line: None, lambda: None))
    print(sum(each.code == 0 for each in ended))
except BusbwError as error:
    print(error)
"""


def test_the_limit_of_open_files_is_raised_where_that_helps() -> None:
    program = STARTS_MANY.format(soft=24, hard=512)
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "30\n"


def test_a_limit_that_stays_is_named() -> None:
    program = STARTS_MANY.format(soft=24, hard=24)
    assert "ulimit -n" in subprocess.check_output([sys.executable, "-c", program], text=True)


def test_a_failure_gives_the_others_a_grace_period() -> None:
    output = RecordedOutput()
    ended = run_all(
        [shell("sleep 0.5; exit 4"), shell("exit 5"), shell("sleep 600")],
        output.callbacks,
        TerminationPolicy(grace_s=5.0),
    )
    assert ended == [ExitStatus(4), ExitStatus(5), ExitStatus(143, was_terminated=True)]


@pytest.mark.parametrize(("code", "end_s"), [(2, 105.0), (3, 105.0), (4, 115.0), (0, 115.0)])
def test_a_process_that_refuses_to_run_shortens_the_grace_period(code: int, end_s: float) -> None:
    now_s = 100.0
    period = GracePeriod(15.0, lambda: now_s)
    period.update([code], is_paused=False)
    now_s = end_s - 0.1
    period.update([code, 4] if code else [0], is_paused=False)
    assert not period.is_over
    now_s = end_s
    assert period.is_over


@pytest.mark.parametrize("hung", [0, 1])
def test_a_command_that_hangs_after_another_ended_is_lost(hung: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_processes, "_KILL_S", 0.5)
    output = RecordedOutput()
    commands = [shell("exit 0", label=0), shell("exit 0", label=1)]
    commands[hung] = shell("trap '' TERM; sleep 600", label=hung)
    ended = run_all(commands, output.callbacks, TerminationPolicy(grace_s=0.5))
    assert [status.code for status in ended] == [4 if process == hung else 0 for process in range(2)]
    assert job_exit_code(ended) == 4
    message = b"busbw: still running more than 0.5 s after another process ended; terminated as lost\n"
    assert output.errors == [(message, hung)]


def test_the_grace_period_waits_for_the_reader_of_the_output() -> None:
    lines: list[bytes] = []
    paused_until_s = time.monotonic() + 1.5
    callbacks = LaunchCallbacks(
        lines.append, lambda: None, is_backlogged=lambda: bool(lines) and time.monotonic() < paused_until_s
    )
    # The table exceeds a pipe, so the first command ends only after the reader has continued.
    ended = run_all([shell("seq 100000"), shell("exit 0")], callbacks, TerminationPolicy(grace_s=0.5))
    assert ended == [ExitStatus(0), ExitStatus(0)]
    assert len(lines) == 100_000


def test_without_a_grace_period_no_command_is_ended() -> None:
    assert run_all([shell("sleep 0.5"), shell("exit 0")], RecordedOutput().callbacks) == [ExitStatus(0), ExitStatus(0)]


def test_a_limit_and_a_reason_end_all() -> None:
    assert run_all([shell("sleep 600")], RecordedOutput().callbacks, TerminationPolicy(limit_s=0.2)) == [
        ExitStatus(143, was_terminated=True)
    ]
    assert run_all([shell("sleep 600")], RecordedOutput().callbacks, TerminationPolicy(should_end=lambda: True)) == [
        ExitStatus(143, was_terminated=True)
    ]


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        ([ExitStatus(0), ExitStatus(0)], 0),
        ([ExitStatus(4), ExitStatus(137)], 4),
        ([ExitStatus(137), ExitStatus(4)], 4),
        ([ExitStatus(0), ExitStatus(139)], 4),
        ([ExitStatus(141), ExitStatus(4)], 141),
        ([ExitStatus(0), ExitStatus(3), ExitStatus(4)], 3),
        ([ExitStatus(143, was_terminated=True), ExitStatus(0), ExitStatus(3)], 3),
        ([ExitStatus(143, was_terminated=True), ExitStatus(143, was_terminated=True), ExitStatus(2)], 2),
        ([ExitStatus(130), ExitStatus(130)], 130),
        ([ExitStatus(1), ExitStatus(0)], 1),
    ],
)
def test_the_code_of_a_job(ended: list[ExitStatus], code: int) -> None:
    assert job_exit_code(ended) == code


@pytest.mark.parametrize(
    ("ended", "beginning"),
    [
        ([ExitStatus(137), ExitStatus(137)], "every process was killed or crashed (SIGKILL); "),
        ([ExitStatus(137), ExitStatus(139)], "every process was killed or crashed (SIGKILL, SIGSEGV); "),
        ([ExitStatus(137), ExitStatus(0)], "process 0 was killed or crashed (SIGKILL); "),
        ([ExitStatus(0), ExitStatus(139)], "process 1 was killed or crashed (SIGSEGV); "),
        ([ExitStatus(137), ExitStatus(4)], ""),  # who is left has said it
        ([ExitStatus(137, was_terminated=True), ExitStatus(137, was_terminated=True)], ""),
        ([ExitStatus(143), ExitStatus(143)], ""),
    ],
)
def test_a_crash_that_no_process_has_named_is_explained(ended: list[ExitStatus], beginning: str) -> None:
    message = crash_message(ended, ["process 0", "process 1"])
    assert message.startswith(beginning)
    assert bool(message) == bool(beginning)


# ---- the environment ------------------------------------------------------------------------------------------------


def environment_of(command_environment: dict[str, str]) -> dict[str, str]:
    output = RecordedOutput()
    run_all([Command(("/usr/bin/env", "-0"), environment=tuple(command_environment.items()))], output.callbacks)
    words = b"".join(output.lines).decode().split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


def test_variables_of_another_job_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_RANK", "7")
    monkeypatch.setenv("BUSBW_TOKEN_FILE", "/old")
    monkeypatch.setenv("BUSBW_JOIN_TIMEOUT_S", "9")
    found = environment_of({"BUSBW_SIZE": "2", "A": "b"})
    assert {name: value for name, value in found.items() if name.startswith("BUSBW_")} == {
        "BUSBW_SIZE": "2",
        "BUSBW_JOIN_TIMEOUT_S": "9",
        **({"BUSBW_PROGRAMS": os.environ["BUSBW_PROGRAMS"]} if "BUSBW_PROGRAMS" in os.environ else {}),
    }
    assert found["A"] == "b"


def test_our_world_variables_stay_without_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_RANK", "7")
    monkeypatch.setenv("BUSBW_RENDEZVOUS", "tcp://node1:20000")
    found = environment_of({"A": "b"})
    assert (found["BUSBW_RANK"], found["BUSBW_RENDEZVOUS"]) == ("7", "tcp://node1:20000")


# ---- files ----------------------------------------------------------------------------------------------------------


def test_files_are_private_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with written_files([PrivateFile(path, "secret\n")]):
        assert path.read_text() == "secret\n"
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("theirs")
    with (
        pytest.raises(BusbwError, match="cannot write"),
        written_files([PrivateFile(tmp_path / "first", ""), PrivateFile(path, "ours")]),
    ):
        pass
    assert path.read_text() == "theirs"
    assert [each.name for each in tmp_path.iterdir()] == ["token"]


# ---- a signal in the last moment ------------------------------------------------------------------------------------


class LastMoment:
    """An epoll object. A Ctrl-C comes at its first wait, after Python has looked for signals and before it waits."""

    def __init__(self) -> None:
        self.has_woken: list[bool] = []
        self._epoll = select.epoll()

    def poll(self, limit_s: float, most: int) -> list[tuple[int, int]]:
        wait = partial(self._epoll.poll, limit_s, most)
        interrupt = partial(getattr(ctypes.PyDLL(None), "raise"), signal.SIGINT)
        # Python looks between two of its own instructions, and `map` has none.
        found: list[tuple[int, int]]
        *_, found = map(methodcaller("__call__"), [wait] if self.has_woken else [interrupt, wait])
        self.has_woken.append(bool(found))
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._epoll, name)


def test_a_signal_in_the_last_moment_before_a_wait_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = LastMoment()
    monkeypatch.setattr(selectors.EpollSelector, "_selector_cls", lambda _self: epoll)
    before = signal.set_wakeup_fd(-1)
    assert run_all([Command(("sleep", "600"))], RecordedOutput().callbacks) == [ExitStatus(128 + signal.SIGINT)]
    assert epoll.has_woken[0]
    assert signal.set_wakeup_fd(before) == -1  # as it was


# ---- interrupts, each in a process of its own -----------------------------------------------------------------------

PROGRAM = """
import sys
from busbw.launchers import Command, LaunchCallbacks
from busbw.launchers.job.processes import TerminationPolicy, run_all, job_exit_code
def shell(script, **more):
    return Command(("/bin/sh", "-c", script), **more)
def line(text):
    sys.stdout.buffer.write(text); sys.stdout.flush()
def status(text):
    line(b"status " + text.encode() + b"\\n")
watch = LaunchCallbacks(line, lambda: None, status, lambda text, who: line(text))
ended = run_all({commands}, watch, TerminationPolicy(**{more}))
print([each.code for each in ended], flush=True)
print("job", job_exit_code(ended), flush=True)
"""


def launcher(commands: str, more: str = "{}") -> "subprocess.Popen[str]":
    program = textwrap.dedent(PROGRAM).format(commands=commands, more=more)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


def read_until(process: "subprocess.Popen[str]", text: str) -> list[str]:
    assert process.stdout
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if text in line:
            return lines
    raise AssertionError(f"{text} did not come: {lines}")


POLITE = "trap 'echo got >&2; exit 130' INT; echo up $$; while :; do sleep 0.05; done"
DEAF = "trap '' INT TERM; echo up $$ >&2; while :; do sleep 0.05; done"


def test_an_interrupt_reaches_all_once() -> None:
    with launcher(f"[shell({POLITE!r}), shell({POLITE.replace('echo up', 'echo up >&2')!r})]") as process:
        read_until(process, "up")
        read_until(process, "up")
        process.send_signal(signal.SIGINT)
        lines = read_until(process, "[130, 130]")
        assert lines.count("got") == 2
        assert any(line.startswith("status interrupted") for line in lines)
        assert process.wait(HANG_GUARD_S) == 0


def test_the_second_interrupt_ends_commands_that_ignore_the_first() -> None:
    with launcher(f"[shell({DEAF!r}), shell({DEAF!r})]") as process:
        read_until(process, "up")
        read_until(process, "up")
        process.send_signal(signal.SIGINT)
        read_until(process, "status interrupted")
        process.send_signal(signal.SIGINT)
        read_until(process, "[137, 137]")
        # busbw has killed them. Neither a crash nor a lack of memory is the cause.
        read_until(process, "job 130")
        process.wait(HANG_GUARD_S)


def test_the_second_signal_is_not_a_crash_of_a_process_that_hangs_after_a_good_process() -> None:
    with launcher(f"[shell('true'), shell({DEAF!r})]") as process:
        read_until(process, "up")
        process.send_signal(signal.SIGTERM)
        read_until(process, "status interrupted")
        process.send_signal(signal.SIGTERM)
        read_until(process, "[0, 137]")
        read_until(process, "job 143")
        process.wait(HANG_GUARD_S)


def test_the_third_interrupt_kills_commands_with_their_own_end_signal() -> None:
    with launcher(f"[shell({DEAF!r}), shell({DEAF!r})]", "{'end_signal': 15}") as process:
        read_until(process, "up")
        read_until(process, "up")
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            read_until(process, "status interrupted")
        read_until(process, "[137, 137]")
        read_until(process, "job 130")
        process.wait(HANG_GUARD_S)


def test_a_stopped_command_handles_an_interrupt() -> None:
    stopped = "trap 'exit 130' INT; echo up; kill -STOP $$; while :; do sleep 0.05; done"
    with launcher(f"[shell({stopped!r})]") as process:
        read_until(process, "up")
        [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        wait_until(lambda: Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        process.send_signal(signal.SIGINT)
        read_until(process, "[130]")
        process.wait(HANG_GUARD_S)


@pytest.mark.parametrize("how", ["interrupt='stop\\n', stdin='token\\n'", "interrupt=10"])
def test_an_interrupt_may_be_text_or_another_signal(how: str) -> None:
    reads = "trap 'exit 7' USR1; echo up; while read -r word; do [ $word != stop ] || exit 7; done; sleep 600 & wait"
    with launcher(f"[shell({reads!r}, {how})]") as process:
        read_until(process, "up")
        process.send_signal(signal.SIGINT)
        read_until(process, "[7]")
        process.wait(HANG_GUARD_S)


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGINT, "INT"), (signal.SIGTERM, "TERM"), (signal.SIGHUP, "TERM")]
)
def test_the_text_of_an_interrupt_may_name_the_signal(number: signal.Signals, name: str) -> None:
    reads = f"echo up; read -r word; [ $word = {name} ] && exit 7"
    with launcher(f"[shell({reads!r}, interrupt='{{signal}}\\n', stdin='')]") as process:
        read_until(process, "up")
        process.send_signal(number)
        read_until(process, "[7]")
        process.wait(HANG_GUARD_S)


def test_no_process_outlives_a_launcher_that_was_killed() -> None:
    with launcher(f"[shell({DEAF!r}), shell({DEAF!r})]") as process:
        pids = [int(read_until(process, "up")[-1].split()[1]) for _ in range(2)]
        assert all(map(is_running, pids))
        process.kill()
        wait_until(lambda: not any(map(is_running, pids)))


def test_all_stop_and_continue_with_us() -> None:
    with launcher(f"[shell({POLITE!r})]") as process:
        pid = int(read_until(process, "up")[-1].split()[1])
        process.send_signal(signal.SIGTSTP)
        # A shell waits in the kernel (state D) for a child that was stopped before its start.
        wait_until(lambda: state(process.pid) == "T" and state(pid) in {"T", "D"})
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: state(pid) != "T")
        process.send_signal(signal.SIGINT)
        read_until(process, "[130]")
        process.wait(HANG_GUARD_S)


def test_the_grace_period_does_not_pass_while_all_are_stopped() -> None:
    with launcher("[shell('echo up $$; sleep 0.5'), shell('exit 0')]", "{'grace_s': 3.0}") as process:
        pid = int(read_until(process, "up")[-1].split()[1])
        process.send_signal(signal.SIGTSTP)
        wait_until(lambda: state(process.pid) == "T" and state(pid) in {"T", "D"})
        time.sleep(3.5)  # longer than the grace period
        process.send_signal(signal.SIGCONT)
        read_until(process, "[0, 0]")
        process.wait(HANG_GUARD_S)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def hangs_up(ignored: bool) -> "subprocess.CompletedProcess[str]":
    """A launch that loses its terminal. Its process waits for that, and then reports that it still runs."""
    script = """
        import os, signal, sys
        from busbw.launchers import Command
        from busbw.launchers.job.processes import run_all
        signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[1] == "True" else signal.SIG_DFL)
        script = f"kill -HUP {os.getpid()}; sleep {sys.argv[2]} >&- 2>&-; echo went on; exit 7"
        sys.exit(run_all([Command(("/bin/sh", "-c", script))])[0].code)
    """
    # A hang-up that is heeded ends the shell long before, and nobody waits for the sleep, which has no pipe.
    words = [sys.executable, "-c", textwrap.dedent(script), str(ignored), "1" if ignored else "30"]
    return subprocess.run(words, capture_output=True, text=True, timeout=HANG_GUARD_S)


def test_under_nohup_a_launch_outlives_its_terminal() -> None:
    done = hangs_up(ignored=True)
    assert (done.returncode, done.stdout) == (7, "went on\n")


def test_without_nohup_it_ends_with_its_terminal() -> None:
    done = hangs_up(ignored=False)
    assert (done.returncode, done.stdout) == (128 + signal.SIGHUP, "")
