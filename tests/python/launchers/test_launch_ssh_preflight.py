"""Checks of a host, with real output of OpenSSH 9.2."""

from pathlib import Path

import pytest

from busbw.errors import BusbwError
from busbw.launchers import Job, LaunchCallbacks, ssh
from busbw.launchers.job.command_start import ExitStatus
from busbw.launchers.job.hosts import HostSlots
from busbw.launchers.ssh.preflight import HostCheck, parse_check, require_ready, resolve_host_name

GOOD = ["busbw-output-follows\n", "program /opt/bin/all_reduce_perf\n", "busbw 0.1.0\n", "backend host 0.1.0\n"]


def test_a_host_that_is_ready() -> None:
    look = parse_check("node1", ExitStatus(0), ["a banner\n", *GOOD])
    assert look == HostCheck("node1", versions=("busbw 0.1.0", "backend host 0.1.0"))
    require_ready([look, HostCheck("node2", versions=look.versions)])


def test_a_start_file_that_prints_no_end_of_line() -> None:
    look = parse_check("node1", ExitStatus(0), ["\x1b]0;node1\x07" + GOOD[0], *GOOD[1:]])
    assert look == HostCheck("node1", versions=("busbw 0.1.0", "backend host 0.1.0"))


@pytest.mark.parametrize(
    "said", ["", "busbw-output-follow\n", "busbw-output-follows", "a title busbw-output-follows\n"]
)
def test_a_run_without_output_is_an_error(said: str, tmp_path: Path) -> None:
    (tmp_path / "ssh").write_text(f'#!/bin/sh\ncat >/dev/null &\necho "{GOOD[0]}$PREFLIGHT" >&2\nprintf %s "{said}"\n')
    (tmp_path / "ssh").chmod(0o755)
    plan = ssh.render(
        Job("all_reduce_perf", ()), ssh.SshTarget((HostSlots("node1", 1),), "node1", 20000, (str(tmp_path / "ssh"),))
    )
    callbacks = LaunchCallbacks(lambda _line: None, lambda: None, on_error=lambda _line, _who: None)
    if "follows" in said:
        assert ssh.submit(plan, callbacks) == 0
    else:
        with pytest.raises(BusbwError, match="process 0 on node1"):
            ssh.submit(plan, callbacks)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("ssh: Could not resolve hostname node9: Name or service not known", "correct the name"),
        ("ada@node1: Permission denied (publickey).", "ssh-copy-id"),
        ("ssh: connect to host node1 port 22: Connection refused", "-p PORT"),
        ("ssh: connect to host 10.255.255.1 port 22: Connection timed out", "reachable"),
        ("ssh: connect to host node1 port 22: No route to host", "reachable"),
        ("Host key verification failed.", "connect once with"),
        ("kex_exchange_identification: Connection closed by remote host", "sshd log"),
    ],
)
def test_why_a_host_cannot_be_reached(said: str, remedy: str) -> None:
    look = parse_check("node1", ExitStatus(255), [f"{said}\r\n"])
    assert said in look.problem
    assert remedy in look.remedy


def test_a_changed_key_differs_from_an_unknown_one() -> None:
    said = [
        "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n",
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n",
        "Host key verification failed.\n",
    ]
    assert "ssh-keygen -R HOST" in parse_check("node1", ExitStatus(255), said).remedy


@pytest.mark.parametrize(
    ("ended", "lines", "trouble", "remedy"),
    [
        (ExitStatus(143, was_terminated=True), [], "no answer in 60 s", "run `ssh"),
        (ExitStatus(255), [], "exit code 255, without a message", "/bin/sh"),
        (ExitStatus(1), ["This account is not available.\n"], "This account is not available.", "/bin/sh"),
        (
            ExitStatus(127),
            GOOD[:1],
            "neither at the path of the launching machine nor in the PATH of the host",
            "--program-path",
        ),
        (
            ExitStatus(127),
            [*GOOD[:2], "all_reduce_perf: error while loading shared libraries: libfmt.so.9\n"],
            "/opt/bin/all_reduce_perf --version ends with exit code 127: all_reduce_perf: error while loading",
            "reinstall busbw there",
        ),
        (ExitStatus(139), GOOD[:2], "ends with exit code 139", "reinstall busbw there"),
    ],
)
def test_other_problems(ended: ExitStatus, lines: list[str], trouble: str, remedy: str) -> None:
    look = parse_check("node1", ended, lines)
    assert trouble in look.problem
    assert remedy in look.remedy


def test_nothing_that_a_host_says_controls_the_terminal() -> None:
    assert "\x1b" not in parse_check("node1", ExitStatus(1), ["\x1b[2Jgone\n"]).problem


def sentence(looks: list[HostCheck]) -> str:
    with pytest.raises(BusbwError) as caught:
        require_ready(looks)
    assert caught.value.exit_code == 3
    return str(caught.value)


def test_hosts_with_the_same_problem_are_named_together() -> None:
    looks = [HostCheck(f"node{number}", "no program", "install it on HOST") for number in range(5)]
    assert sentence([HostCheck("good", versions=("1",)), *looks]) == (
        "node0, node1, node2 and 2 more: no program; install it on node0"
    )
    assert sentence([*looks[:2], HostCheck("other", "no answer", "wait")]) == (
        "node0, node1: no program (and 1 host for other reasons); install it on node0"
    )


def test_versions_must_be_the_same() -> None:
    first = HostCheck("a", versions=("busbw 1", "backend host 1"))
    assert "a has busbw 1 and c has busbw 2" in sentence(
        [first, first, HostCheck("c", versions=("busbw 2", "backend host 1"))]
    )
    assert "a has backend host 1 and b has backend host 2" in sentence(
        [first, HostCheck("b", versions=("busbw 1", "backend host 2"))]
    )
    assert "b has no version" in sentence([first, HostCheck("b")])


def test_hosts_may_have_different_gpu_engines() -> None:
    """A job of the host backend needs none; where one is needed the engine says what is missing."""
    looks = [
        parse_check(host, ExitStatus(0), [*GOOD, *more])
        for host, more in (("a", []), ("b", ["backend nccl, built with the headers of 2.28.9\n"]))
    ]
    assert [look.problem for look in looks] == ["", ""]
    assert looks[0].versions == looks[1].versions != ()
    require_ready(looks)


def test_without_an_answer_of_ssh_a_host_has_the_typed_name() -> None:
    assert resolve_host_name(("/nowhere/ssh",), HostSlots("ada@node1", 1)) == "node1"
