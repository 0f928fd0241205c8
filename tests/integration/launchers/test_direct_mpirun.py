"""mpirun over several hosts without `busbw launch`: the processes find each other through its key-value store.

The hosts are network namespaces. mpirun starts its daemons there with a command in place of ssh.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from installed import installed_in, plain_environment
from polling import HANG_GUARD_S

from .. import mpi
from ..programs import Finished
from ..table import rows_by_pattern
from .namespaces import Network, network, skip_reason

pytestmark = pytest.mark.skipif(bool(reason := skip_reason()), reason=reason)

PROGRAM = installed_in() / "all_reduce_perf"
SMALL = ["-b", "8", "-e", "4K", "-f", "8", "-n", "2"]
# MPICH kills all processes as soon as it learns of a dead one. In about a third of the jobs (5.0.2), this is before
# process 0 has printed why the job ends.
ATTEMPTS = {"openmpi": 1, "mpich": 10}
# Called as ssh is, with options, an address and a command for a shell. The last number of a host's address is its index
# in the network plus 10.
AGENT = r"""#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
index=$((${1##*.} - 10)); shift
exec ip netns exec NETWORK-$index unshare --uts sh -c "echo host$index >/proc/sys/kernel/hostname; $*"
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Network]:
    with network(2) as net:
        yield net


@pytest.fixture(params=mpi.FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if reason := mpi.skip_reason(name):
        pytest.skip(reason)
    return name


class DirectJob:
    """mpirun on the first host, with two processes on each."""

    def __init__(self, hosts: Network, family: str, folder: Path) -> None:
        self.hosts = hosts
        self.family = family
        self.folder = folder
        self.agent = folder / "agent"
        self.agent.write_text(AGENT.replace("NETWORK", hosts.name))
        self.agent.chmod(0o755)

    def words(self, options: list[str]) -> list[str]:
        addresses = [host.addresses[0] for host in self.hosts.hosts]
        command = [str(mpi.mpirun(self.family)), "-np", "4"]
        if self.family == "openmpi":
            command += ["-H", ",".join(f"{address}:2" for address in addresses), "--prtemca", "plm_ssh_agent"]
            command += [str(self.agent), "--allow-run-as-root", "--map-by", "ppr:2:node"]
        else:
            command += ["-hosts", ",".join(f"{address}:2" for address in addresses), "-launcher", "ssh"]
            command += ["-launcher-exec", str(self.agent)]
        return [*command, *options]

    def run(self, *program: str, options: tuple[str, ...] = (), **variables: str) -> Finished:
        environment = plain_environment() | {"BUSBW_JOIN_TIMEOUT_S": "30"} | variables
        process = self.hosts.hosts[0].start(
            [*self.words([*options]), str(PROGRAM), *SMALL, *program], folder=self.folder, environment=environment
        )
        stdout, stderr = process.communicate(timeout=HANG_GUARD_S)
        return Finished(process.returncode, stdout, stderr)


@pytest.fixture
def job(hosts: Network, family: str, tmp_path: Path) -> DirectJob:
    return DirectJob(hosts, family, tmp_path)


def test_processes_on_two_hosts_are_one_job(job: DirectJob) -> None:
    ended = job.run()
    assert ended.code == 0, ended.stderr
    assert len(rows_by_pattern(ended.stdout)) == 4, ended.stdout
    ranks = re.findall(r"^#\s+Rank\s+(\d+) .* on\s+(\S+)", ended.stdout, flags=re.MULTILINE)
    assert [rank for rank, _ in ranks] == ["0", "1", "2", "3"]
    assert len({host for _, host in ranks}) == 2
    # Process 0 made a secret token, so the header does not warn.
    assert "token" not in ended.stdout


def test_a_job_that_fails_ends_as_a_whole(job: DirectJob) -> None:
    for _ in range(ATTEMPTS[job.family]):
        ended = job.run("--fault", "die:rank=3,phase=timing")
        assert ended.code != 0
        if "rank 3" in ended.stderr:
            break
    assert "rank 3" in ended.stderr


def test_a_library_that_is_not_there_names_the_remedy(hosts: Network, tmp_path: Path) -> None:
    if reason := mpi.skip_reason("openmpi"):
        pytest.skip(reason)
    ended = DirectJob(hosts, "openmpi", tmp_path).run(options=("-x", "BUSBW_PMIX"), BUSBW_PMIX="/nowhere/libpmix.so.2")
    assert ended.code != 0
    assert "/nowhere/libpmix.so.2" in ended.stderr
    assert "set BUSBW_RENDEZVOUS=tcp://HOST:PORT for all processes" in ended.stderr
    assert "#       size" not in ended.stdout
