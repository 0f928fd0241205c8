"""Plans of the launchers local, ssh and mpirun: equal to golden files, pure, and without the token."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from launch_jobs import JOB, TOKEN, expect_golden

from busbw.launchers import LaunchPlan, local, mpirun, ssh
from busbw.launchers.job.hosts import HostSlots

HOSTS = (HostSlots("node1", 2), HostSlots("ada@node2", 2))

SSH = ssh.SshTarget(hosts=HOSTS, root_address="node1", port=20001)
MPI = mpirun.MpirunTarget(
    family="openmpi", hosts=(HostSlots("node1", 2), HostSlots("node2", 2)), store="tcp://node1:20001"
)

RENDERED: dict[str, LaunchPlan] = {
    "local/two.txt": local.render(replace(JOB, nodes=1), local.LocalTarget(port=20001)),
    "local/one.txt": local.render(replace(JOB, nodes=1, processes_per_node=1)),
    "ssh/two_hosts.txt": ssh.render(JOB, SSH),
    "ssh/options.txt": ssh.render(
        JOB,
        replace(
            SSH,
            hosts=(HostSlots("fe80::1", 1),),
            ssh=("ssh", "-p", "2222", "-o", "User=ada"),
            root_address="fe80::1",
            programs=("/opt/busbw/bin/all_reduce_perf", "all_reduce_perf"),
        ),
    ),
    "mpirun/openmpi.txt": mpirun.render(JOB, MPI),
    "mpirun/openmpi_options.txt": mpirun.render(
        JOB,
        replace(
            MPI,
            store="file:///shared/busbw-all-reduce-1a2b3c",
            mpirun=("/opt/openmpi/bin/mpirun",),
            programs=("all_reduce_perf",),
            bind_to="core",
            as_root=True,
            oversubscribe=True,
            extra_words=("--mca", "plm_rsh_agent", "ssh -p 2222"),
        ),
    ),
    "mpirun/mpich.txt": mpirun.render(JOB, replace(MPI, family="mpich")),
    "mpirun/mpich_here.txt": mpirun.render(
        JOB, replace(MPI, family="mpich", hosts=(HostSlots("localhost", 4),), store="tcp://127.0.0.1:20001")
    ),
}


@pytest.mark.parametrize("name", RENDERED)
def test_the_plan_matches_the_golden_file(name: str) -> None:
    expect_golden(name, RENDERED[name].text())


@pytest.mark.parametrize("name", RENDERED)
def test_the_token_is_passed_but_on_no_command_line(name: str) -> None:
    plan = RENDERED[name]
    for command in plan.commands:
        assert TOKEN not in " ".join(command.words)
        assert TOKEN not in repr(command)
        travels = TOKEN in dict(command.environment).values() or TOKEN in (command.stdin or "")
        assert travels or name == "local/one.txt"
    assert TOKEN not in repr(plan)


def test_every_process_has_its_variables() -> None:
    environments = [dict(command.environment) for command in RENDERED["local/two.txt"].commands]
    assert [each["BUSBW_RANK"] for each in environments] == ["0", "1"]
    assert {each["BUSBW_SIZE"] for each in environments} == {"2"}
    assert len({each["BUSBW_RENDEZVOUS"] for each in environments}) == 1


def test_ranks_continue_from_host_to_host() -> None:
    uneven = ssh.render(JOB, replace(SSH, hosts=(HostSlots("a", 1), HostSlots("b", 3), HostSlots("c", 2))))
    scripts = [command.stdin or "" for command in uneven.commands]
    found = [
        [word.removeprefix("BUSBW_RANK=") for word in script.split() if word.startswith("BUSBW_RANK=")]
        for script in scripts
    ]
    assert found == [["0"], ["1", "2", "3"], ["4", "5"]]
    assert all("BUSBW_SIZE=6" in script for script in scripts)
    assert [command.label for command in uneven.commands] == [0, "b", "c"]


def test_over_ssh_a_search_knows_its_hosts_if_each_has_equally_many_processes() -> None:
    search = replace(JOB, arguments=("flows",))
    for job, second, expected in (
        (search, HostSlots("ada@node2", 2), ["BUSBW_HOSTS=node1,node2"]),
        (search, HostSlots("node2", 1), []),
        (JOB, HostSlots("node2", 2), []),
    ):
        (first, _) = ssh.render(job, replace(SSH, hosts=(HostSlots("node1", 2), second))).commands
        assert re.findall(r"BUSBW_HOSTS=\S+", first.stdin or "") == expected


@pytest.mark.parametrize(
    ("count", "given", "said"), [(8, (), None), (20, (), "72"), (20, (("BUSBW_JOIN_TIMEOUT_S", "9"),), "9")]
)
def test_over_ssh_many_hosts_have_longer_to_arrive(
    count: int, given: tuple[tuple[str, str], ...], said: str | None
) -> None:
    hosts = tuple(HostSlots(f"n{number}", 1) for number in range(count))
    (first, *_) = ssh.render(replace(JOB, environment=given), replace(SSH, hosts=hosts)).commands
    found = re.findall(r"BUSBW_JOIN_TIMEOUT_S=(\d+)", first.stdin or "")
    assert found == ([said] if said else [])


def test_over_ssh_only_process_0_may_write_where_records_go(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\necho "heard of $BUSBW_RANK"\n')
    program.chmod(0o755)
    where = ssh.SshTarget((HostSlots("a", 2),), root_address="a", port=20000, programs=(str(program),))
    (command,) = ssh.render(JOB, where).commands
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", command.words[-1]], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as shell:
        assert shell.stdin
        assert shell.stdout
        assert shell.stderr
        shell.stdin.write(command.stdin or "")
        shell.stdin.flush()  # its end would kill the processes
        assert shell.stdout.read().splitlines()[-1] == "heard of 0"
        assert shell.stderr.read() == "heard of 1\n"


def test_a_search_goes_on_without_processes_that_end() -> None:
    """The ssh launcher ended a search 15 s after a process could not start."""
    search = replace(JOB, arguments=("flows",))
    for plan in (local.render(replace(search, nodes=1), local.LocalTarget(port=20001)), ssh.render(search, SSH)):
        assert plan.tolerates_losses
    assert not ssh.render(JOB, SSH).tolerates_losses
