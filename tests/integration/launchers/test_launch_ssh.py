"""`busbw launch ssh` with a real sshd on the loopback interface that plays several hosts."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_lines import command_lines
from polling import send_signal, wait_for_end

from busbw import engine

from .launching import Launched, Launching, launch, processes_with
from .private_sshd import PrivateSshd, children_of, skip_reason

pytestmark = pytest.mark.skipif(bool(skip_reason()), reason=skip_reason())

SMALL = ["-b", "8", "-e", "4K", "-n", "2"]
ENDLESS = [*SMALL, "-N", "0"]


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateSshd]:
    with PrivateSshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


def words(sshd: PrivateSshd, hosts: str, *more: str, ssh: str = "") -> list[str]:
    return ["ssh", "--ssh", ssh or sshd.ssh, "--hosts", hosts, "--root-address", "127.0.0.1", *more]


def refused(launched: Launched) -> str:
    """The only sentence of a launch that nothing came of, beside what it waits for on a busy machine."""
    assert launched.code == 3, launched.stderr
    (sentence,) = [
        line for line in launched.stderr.splitlines() if not re.match("busbw: (copying|connecting|starting)", line)
    ]
    assert list(launched.folder.iterdir()) == []
    return sentence


# ---- a run ----------------------------------------------------------------------------------------------------------


def test_one_table_of_three_processes_on_two_hosts(sshd: PrivateSshd, here: Path) -> None:
    launched = launch([*words(sshd, "node1,node2:2"), "--", "all_reduce", *SMALL], here)
    assert launched.code == 0, launched.stderr
    assert [row[0] for row in launched.rows] == [str(2**power) for power in range(3, 13)]
    ranks = launched.records[0]["ranks"]
    assert [rank["process"] for rank in ranks] == [0, 1, 2]
    assert len({rank["pid"] for rank in ranks}) == 3
    assert "Data: correct" in launched.stderr


def test_the_hosts_may_stand_in_a_file_and_ranks_be_threads(sshd: PrivateSshd, here: Path) -> None:
    hostfile = here.parent / "hosts"
    hostfile.write_text("node1 slots=1\nnode2:1 # two\n")
    where = ["ssh", "--ssh", sshd.ssh, "--hostfile", str(hostfile), "--root-address", "127.0.0.1"]
    launched = launch([*where, "--", "all_gather", *SMALL, "-t", "2"], here)
    assert launched.code == 0, launched.stderr
    assert [rank["process"] for rank in launched.records[0]["ranks"]] == [0, 0, 1, 1]


def test_output_of_a_login_shell_is_not_part_of_the_table(sshd: PrivateSshd, here: Path) -> None:
    launched = launch([*words(sshd, "node3,node1"), "--", "all_reduce", *SMALL], here)
    assert launched.code == 0, launched.stderr
    assert "noise" not in launched.stdout + launched.stderr
    assert launched.stdout.startswith("# nccl-tests version")


def test_variables_and_the_exit_code_come_through(sshd: PrivateSshd, here: Path) -> None:
    more = ["--env", "NCCL_TESTS_MIN_BW=1000000"]
    launched = launch([*words(sshd, "node1,node2", *more), "--", "all_reduce", *SMALL], here)
    assert launched.code == 5, launched.stderr
    flips = ["--fault", "flip:rank=1,index=1,bit=3"]
    launched = launch([*words(sshd, "node1,node2"), "--", "all_reduce", *SMALL, *flips], here.parent)
    assert launched.code == 1, launched.stderr
    assert "rank 1" in launched.stderr


def test_a_wrong_flag_is_reported_once(sshd: PrivateSshd, here: Path) -> None:
    launched = launch([*words(sshd, "node1,node2:3"), "--", "all_reduce", "-n", "0"], here)
    assert launched.code == 2
    assert launched.stderr.count("-n (--iters) 0") == 1
    assert list(here.iterdir()) == []


def test_the_token_is_on_no_command_line_there_either(sshd: PrivateSshd, here: Path) -> None:
    with Launching(
        [*words(sshd, "node1,node2"), "--env", f"MARK={here}", "--", "all_reduce", *ENDLESS], here
    ) as running:
        running.wait_for_rows()
        (pid, *_) = processes_with(f"MARK={here}\0")
        variables = dict(
            word.split(b"=", 1) for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if b"=" in word
        )
        token = variables[b"BUSBW_TOKEN"]
        lines = command_lines()
        assert not any(token in line for line in lines)
        running.interrupt()
        launched = running.finish()
    assert token.decode() not in launched.stdout + launched.stderr


# ---- a copy of the program ------------------------------------------------------------------------------------------


@pytest.fixture
def copies(here: Path) -> Path:
    folder = here.parent / "copies"
    folder.mkdir()
    return folder


def test_the_program_is_copied_used_and_removed(sshd: PrivateSshd, here: Path, copies: Path) -> None:
    where = words(sshd, "node1,node3:2", "--copy-to", str(copies), "--env", f"MARK={here}")
    with Launching([*where, "--", "all_reduce", *ENDLESS], here) as running:
        running.wait_for_rows()
        programs = {str(Path(f"/proc/{pid}/exe").readlink()) for pid in processes_with(f"MARK={here}\0")}
        copied = {str(path) for path in copies.glob("*/all_reduce_perf")}
        assert len(copied) == 2
        assert copied <= programs
        assert all(Path(path).parent.stat().st_mode & 0o777 == 0o700 for path in copied)
        running.interrupt()
        assert running.finish().code == 130
    assert list(copies.iterdir()) == []


def test_a_copy_needs_no_program_on_the_hosts_and_is_removed_after_the_run(
    sshd: PrivateSshd, here: Path, copies: Path
) -> None:
    launched = launch([*words(sshd, "node1,node2", "--copy-to", str(copies)), "--", "all_gather", *SMALL], here)
    assert launched.code == 0, launched.stderr
    assert "Collective test concluded: all_gather_perf" in launched.stdout
    assert list(copies.iterdir()) == []


def test_a_folder_that_cannot_take_the_copy_is_named(sshd: PrivateSshd, here: Path) -> None:
    launched = launch([*words(sshd, "node1,node2", "--copy-to", "/proc/none"), "--", "all_reduce", *SMALL], here)
    sentence = refused(launched)
    assert sentence.startswith("busbw: node1: cannot copy the program (mkdir: ")
    assert "--copy-to" in sentence


def test_a_host_that_fails_leaves_no_copy_on_the_others(sshd: PrivateSshd, here: Path, copies: Path) -> None:
    launched = launch([*words(sshd, "node1,nowhere.invalid", "--copy-to", str(copies)), "--", "all_reduce"], here)
    assert launched.code == 3
    assert "nowhere.invalid: ssh cannot connect" in launched.stderr
    assert list(copies.iterdir()) == []


# ---- the end of it --------------------------------------------------------------------------------------------------


@pytest.fixture
def endless(sshd: PrivateSshd, here: Path) -> Iterator[Launching]:
    """A run on two hosts without end, past its first rows; its processes can be told by the folder."""
    # Shorter than the default minutes, but longer than a busy machine may delay a daemon.
    impatient = f"{sshd.ssh} -o ServerAliveInterval=3 -o ServerAliveCountMax=4"
    where = words(sshd, "node1,node2:2", "--env", f"MARK={here}", ssh=impatient)
    with Launching([*where, "--", "all_reduce", *ENDLESS], here) as running:
        running.wait_for_rows()
        assert len(processes_with(f"MARK={here}\0")) >= 3
        yield running
    wait_for_end(processes_with(f"MARK={here}\0"))


def test_control_c_ends_all_in_order_and_keeps_the_rows(endless: Launching, here: Path) -> None:
    ranks = processes_with(f"MARK={here}\0")
    endless.interrupt()
    launched = endless.finish()
    assert launched.code == 130, launched.stderr
    assert "Traceback" not in launched.stderr
    assert launched.rows
    assert launched.records[-1]["kind"] == "end"
    assert launched.records[-1]["exit_code"] == 130
    wait_for_end(ranks)


def test_no_remote_process_outlives_a_killed_launcher(endless: Launching, here: Path) -> None:
    ranks = processes_with(f"MARK={here}\0")
    endless.process.kill()
    wait_for_end(ranks)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["closed", "silent"])
def test_a_cut_connection_is_a_lost_rank(
    endless: Launching, sshd: PrivateSshd, here: Path, how: signal.Signals
) -> None:
    ranks = processes_with(f"MARK={here}\0")
    second = session_of(sshd, "BUSBW_RANK=1\0", f"MARK={here}\0")
    send_signal(second, how)
    try:
        launched = endless.finish()
    finally:
        if how == signal.SIGSTOP:
            os.kill(second, signal.SIGKILL)
    assert launched.code == 4, launched.stderr
    assert "the connection to node2 was lost" in launched.stderr
    assert launched.rows
    wait_for_end(ranks)


def session_of(sshd: PrivateSshd, *texts: str) -> int:
    """The sshd process of the connection of a process with these texts in its environment.

    It is the last of sshd's on the way there: in OpenSSH 10 root's connection has two, of which one only waits.
    """
    wanted = set.intersection(*(set(processes_with(text)) for text in texts))
    below = sshd.sessions()
    while below:
        serving = next((session for session in below if family_of(session) & wanted), None)
        if serving is None:
            break
        below = [child for child in children_of(serving) if name_of(child).startswith("sshd")]
        if not any(family_of(child) & wanted for child in below):
            return serving
    raise AssertionError(f"no session of {texts}")


def family_of(pid: int) -> set[int]:
    """The process and all below it."""
    return {pid}.union(*(family_of(child) for child in children_of(pid)))


def name_of(pid: int) -> str:
    """As the kernel has it; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


# ---- what is seen before anything starts ----------------------------------------------------------------------------


def test_an_unknown_host(sshd: PrivateSshd, here: Path) -> None:
    sentence = refused(launch([*words(sshd, "node1,no-such-host.invalid"), "--", "all_reduce"], here))
    assert "no-such-host.invalid" in sentence
    assert "correct the name" in sentence


def test_a_host_that_denies_the_login(sshd: PrivateSshd, here: Path) -> None:
    wrong = sshd.folder / "wrong"
    wrong.write_text(sshd.client.read_text().replace(f"{sshd.folder}/user", f"{sshd.folder}/other"))
    sentence = refused(launch([*words(sshd, "node1,node2", ssh=f"ssh -F {wrong}"), "--", "all_reduce"], here))
    assert "node1" in sentence
    assert "Permission denied" in sentence
    assert "ssh-copy-id node1" in sentence


def test_a_host_with_an_unknown_key(sshd: PrivateSshd, here: Path) -> None:
    ssh = f"{sshd.ssh} -o UserKnownHostsFile={sshd.folder}/unknown"
    sentence = refused(launch([*words(sshd, "node1,node2", ssh=ssh), "--", "all_reduce"], here))
    assert "Host key verification failed" in sentence
    assert "connect once with" in sentence


def test_a_host_without_sshd(sshd: PrivateSshd, here: Path) -> None:
    sentence = refused(launch([*words(sshd, "node1", ssh=f"{sshd.ssh} -p 1"), "--", "all_reduce"], here))
    assert "Connection refused" in sentence
    assert "ssh -p PORT" in sentence


def test_a_host_without_the_program(sshd: PrivateSshd, here: Path) -> None:
    sentence = refused(launch([*words(sshd, "node1,node2"), "--program-path", "/nowhere", "--", "all_reduce"], here))
    assert "node1, node2: the program is neither" in sentence
    assert "--program-path" in sentence


def test_hosts_with_different_versions(sshd: PrivateSshd, here: Path) -> None:
    program = here.parent / "all_reduce_perf"
    program.write_text('#!/bin/sh\necho "busbw of ${SSH_CONNECTION% *}" | cut -d. -f1-4\n')
    program.chmod(0o755)
    where = [*words(sshd, "node1,node2"), "--program-path", str(program)]
    sentence = refused(launch([*where, "--", "all_reduce"], here))
    assert "node1 has busbw of" in sentence
    assert "and node2 has busbw of" in sentence


def test_a_program_that_does_not_start(sshd: PrivateSshd, here: Path) -> None:
    program = here.parent / "all_reduce_perf"
    program.write_text("#!/bin/sh\necho 'error while loading shared libraries: libx.so' >&2\nexit 127\n")
    program.chmod(0o755)
    sentence = refused(launch([*words(sshd, "node1"), "--program-path", str(program), "--", "all_reduce"], here))
    assert "libx.so" in sentence


def test_no_ssh_here(here: Path) -> None:
    where = ["ssh", "--ssh", "/nowhere/ssh", "--hosts", "node1", "--program-path", str(engine.program("busbw-engine"))]
    launched = launch([*where, "--", "all_reduce"], here)
    assert launched.code == 3
    assert "/nowhere/ssh" in launched.stderr
