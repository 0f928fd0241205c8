"""`busbw find` in jobs of the real launchers, with the real engine. Most searches are of a simulated cluster.

The engine of process 0 starts the first `busbw` on its PATH. Here that is a script, which names a NIC surely.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from installed import installed_in, plain_environment
from polling import HANG_GUARD_S

from .. import mpi
from . import namespaces
from .launching import BUSBW, Launched, Launching, with_program
from .private_sshd import PrivateSshd
from .slurm import Slurm

REAL = "sys.exit(main())"
"""Body of a `busbw` that measures."""
SIMULATED = 'sys.exit(main([*sys.argv[1:-2], "--simulate", "6x4", "--fault", "nic:3/1:2"]))'
"""Body of a `busbw` that ignores `--connected`, so that the engine sees the end of its requests."""
INTERRUPTED = """
import os, signal
from pathlib import Path
def report(*_):
    print("SLOW: so far", flush=True)
    sys.exit(130)
signal.signal(signal.SIGINT, report)
answers, requests = map(int, sys.argv[-1].split(","))
os.write(requests, b'{"ask":"cluster","protocol":1}\\n')
Path("answer").write_bytes(os.read(answers, 1 << 20))
signal.pause()
"""
"""Body of a `busbw` that waits for Ctrl-C after the first answer."""
MEASURED = ["--backend", "host", "--size", "64K", "--max-rounds", "2"]
"""Options of a short search with the body `REAL`."""
SLOW_NIC = "SLOW: NIC mlx5_1 of n3"


def search(words: list[str], here: Path, environment: dict[str, str]) -> Launched:
    with Launching(with_program(words, here), here, environment, command="find") as launching:
        return launching.finish()


def ssh_words(sshd: PrivateSshd, hosts: str, variables: dict[str, str]) -> list[str]:
    words = ["ssh", "--ssh", sshd.ssh, "--hosts", hosts, "--root-address", "127.0.0.1"]
    return [*words, *variable_words(variables)]


def variable_words(variables: dict[str, str]) -> list[str]:
    return [word for pair in variables.items() for word in ("--env", "=".join(pair))]


def require_slow_nic(launched: Launched) -> None:
    """The search named the NIC, with its exit code, and left nothing behind."""
    assert launched.code == 5, launched.stderr
    assert launched.stdout.startswith(SLOW_NIC)
    assert "seed 7." in launched.stdout
    assert list(launched.folder.iterdir()) == []


# ---- launchers ------------------------------------------------------------------------------------------------------


def test_local(install: Callable[[str], dict[str, str]], here: Path) -> None:
    require_slow_nic(search(["local", "--processes", "3", "--seed", "7"], here, install(SIMULATED)))


def test_ssh(sshd: PrivateSshd, install: Callable[[str], dict[str, str]], here: Path) -> None:
    require_slow_nic(search([*ssh_words(sshd, "node1,node2:2", install(SIMULATED)), "--seed", "7"], here, {}))


def test_an_ssh_host_that_refuses_connections_is_a_finding(
    sshd: PrivateSshd, install: Callable[[str], dict[str, str]], here: Path
) -> None:
    words = ssh_words(sshd, "node1,127.0.0.4,node2", install(REAL))
    launched = search([*words, *MEASURED, "-t", "2", "--json", "--write-hostfile", "hosts"], here, {})
    assert launched.code == 5, launched.stderr
    result = json.loads(launched.stdout)
    finding = result["findings"][0]
    assert (finding["kind"], finding["node"], finding["dead"], finding["lost"]) == ("node", "127.0.0.4", True, True)
    assert finding["says"].startswith("node 127.0.0.4 cannot take part; ssh cannot connect (")
    assert "Connection refused" in finding["says"]
    assert result["rounds"] == 2
    assert next((one["kind"], one["all_parts"]) for one in result["power"]) == ("gpu", 4)
    assert "127.0.0.4" not in (here / "hosts").read_text()


def test_a_copy_to_an_ssh_host_that_fails_is_a_finding(
    sshd: PrivateSshd, install: Callable[[str], dict[str, str]], here: Path, tmp_path: Path
) -> None:
    words = ssh_words(sshd, "node1,127.0.0.4,node2", install(REAL))
    copies = tmp_path / "copies"
    copies.mkdir()
    with Launching([*words, "--copy-to", str(copies), *MEASURED], here, command="find") as launching:
        launched = launching.finish()
    assert launched.code == 5, launched.stderr
    assert launched.stdout.startswith("LOST: node 127.0.0.4 cannot take part.\n    Ssh cannot connect (")
    assert list(copies.iterdir()) == []


@pytest.mark.parametrize("hosts", ["127.0.0.4,node1,node2", "node1,127.0.0.4", "127.0.0.4,127.0.0.5"])
def test_too_few_ssh_hosts_or_a_dead_first_host_with_an_address_end_the_search(
    hosts: str, sshd: PrivateSshd, install: Callable[[str], dict[str, str]], here: Path
) -> None:
    launched = search([*ssh_words(sshd, hosts, install(REAL)), "--backend", "host"], here, {})
    assert (launched.code, launched.stdout) == (3, "")
    assert "127.0.0.4" in launched.stderr
    assert "Connection refused" in launched.stderr


@pytest.mark.skipif(bool(namespaces.skip_reason()), reason=namespaces.skip_reason())
def test_a_first_host_that_cannot_be_reached_is_a_finding_and_another_host_measures(
    sshd: PrivateSshd, install: Callable[[str], dict[str, str]], here: Path
) -> None:
    """Each host has its own sshd. The link of host1 is cut, so ssh to it times out."""
    variables = variable_words(install(REAL))
    with namespaces.network(3) as net:
        server, client = sshd.write_for_hosts({host.name: host.addresses[0] for host in net.hosts})
        for host in net.hosts:
            host.start(server, folder=here, environment=plain_environment())
        net.cut(net.hosts[1])
        words = ["--ssh", f"{client} -o ConnectTimeout=2 -o ConnectionAttempts=3", "--hosts", "host1,host0,host2"]
        command = [*BUSBW, "find", *with_program(["ssh", *words, *variables, *MEASURED, "--json"], here)]
        finding_host = net.hosts[0].start(command, folder=here, environment={**os.environ})
        out, errors = finding_host.communicate(timeout=HANG_GUARD_S)
    assert finding_host.returncode == 5, errors
    [lost] = [finding for finding in json.loads(out)["findings"] if finding.get("lost")]
    assert (lost["kind"], lost["node"]) == ("node", "host1")
    assert "ssh cannot connect (ssh: connect to host 10.78.0.11 port " in lost["says"]
    assert "host1: ssh cannot connect (" in errors
    [record] = here.glob("busbw-records/*-find/records.jsonl")
    assert [node["name"] for node in json.loads(record.read_text().splitlines()[0])["nodes"]] == ["host0", "host2"]


@pytest.mark.parametrize("family", mpi.FAMILIES)
def test_mpirun(family: str, install: Callable[[str], dict[str, str]], here: Path) -> None:
    if reason := mpi.skip_reason(family):
        pytest.skip(reason)
    words = ["mpirun", "--mpirun", str(mpi.mpirun(family)), "--processes-per-node", "2", "--seed", "7"]
    require_slow_nic(search(words, here, install(SIMULATED)))


@pytest.mark.parametrize("submit_with", ["sbatch", "srun"])
def test_slurm(
    submit_with: str, on_slurm: dict[str, str], install: Callable[[str], dict[str, str]], here: Path
) -> None:
    words = ["slurm", "--nodes", "2", "--shared", "--submit-with", submit_with, "--seed", "7"]
    require_slow_nic(search(words, here, {**on_slurm, **install(SIMULATED)}))


@pytest.mark.parametrize(
    ("submit_with", "nodes"), [("sbatch", ["--nodelist", "n[1-3]"]), ("srun", ["--exclude", "n4"])]
)
def test_a_slurm_node_that_cannot_start_is_a_finding(
    submit_with: str,
    nodes: list[str],
    slurm: Slurm,
    on_slurm: dict[str, str],
    install: Callable[[str], dict[str, str]],
    here: Path,
) -> None:
    words = ["slurm", "--nodes", "3", *nodes, "--shared", "--submit-with", submit_with, "--json", *MEASURED]
    slurm.crash_node("n2")
    try:
        launched = search(words, here, {**on_slurm, **install(REAL)})
    finally:
        slurm.recover("n2")
    assert launched.code == 5, launched.stderr
    [lost] = [finding for finding in json.loads(launched.stdout)["findings"] if finding.get("lost")]
    assert (lost["kind"], lost["node"]) == ("node", "n2")
    assert lost["says"].startswith("node n2 cannot take part; Slurm could not start its tasks: ")
    [record] = here.glob("busbw-records/*-find/records.jsonl")
    assert [node["name"] for node in json.loads(record.read_text().splitlines()[0])["nodes"]] == ["n1", "n3"]


def test_slurm_attach_shows_the_answer(
    on_slurm: dict[str, str], install: Callable[[str], dict[str, str]], here: Path
) -> None:
    environment = {**on_slurm, **install(SIMULATED)}
    words = ["slurm", "--nodes", "2", "--shared", "--detach", "--output-folder", "job", "--seed", "7"]
    assert search(words, here, environment).code == 0
    with Launching(["attach", "job"], here, environment) as attaching:
        require_slow_nic(attaching.finish())


# ---- the search itself ----------------------------------------------------------------------------------------------


def test_the_flows_of_the_job_are_measured(install: Callable[[str], dict[str, str]], here: Path) -> None:
    words = ["local", "--processes", "2", "--backend", "host", "-t", "2", "--size", "64K", "--max-rounds", "2"]
    launched = search([*words, "--json", "--write-hostfile", "hosts"], here, install(REAL))
    assert launched.code in (0, 5, 6), launched.stderr  # this machine decides
    result = json.loads(launched.stdout)
    assert (result["rounds"], result["simulated"]) == (2, False)
    assert next((one["kind"], one["all_parts"]) for one in result["power"]) == ("gpu", 4)
    assert (here / "hosts").read_text().split() == result["unsuspected_nodes"]


def test_control_c_reports_what_is_known(install: Callable[[str], dict[str, str]], here: Path) -> None:
    environment = install(INTERRUPTED)
    words = with_program(["local", "--processes", "2"], here)
    with Launching(words, here, environment, command="find") as launching:
        launching.wait((here / "answer").exists)
        launching.interrupt()
        launched = launching.finish()
    assert launched.code == 130, launched.stderr
    assert launched.stdout == "SLOW: so far\n"
    assert json.loads((here / "answer").read_text())["nodes"][0]["gpus"] == 2


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_second_control_c_does_not_cost_the_findings(
    processes: str, install: Callable[[str], dict[str, str]], here: Path
) -> None:
    body = INTERRUPTED.replace("def report(*_):", "def report(*_):\n    Path('first').touch(); time.sleep(1)")
    body += "signal.signal(signal.SIGTERM, signal.SIG_IGN)"  # as a search soon after the first signal
    body = body.replace("signal.pause()\n", "") + "\nsignal.pause()\n"
    environment = install(body.replace("import os, signal", "import os, signal, time"))
    words = with_program(["local", "--processes", processes], here)
    with Launching(words, here, environment, command="find") as launching:
        launching.wait((here / "answer").exists)
        launching.interrupt()
        launching.wait((here / "first").exists)
        launching.interrupt()
        launched = launching.finish()
    assert (launched.code, launched.stdout) == (130, "SLOW: so far\n"), launched.stderr


@pytest.mark.parametrize("processes", ["2", "3"])
def test_a_lost_process_is_a_finding(processes: str, install: Callable[[str], dict[str, str]], here: Path) -> None:
    words = ["local", "--processes", processes, "--size", "64K", "--fault", "die:rank=1,phase=timing"]
    launched = search(words, here, install(REAL))
    assert launched.code == 5, launched.stderr
    assert "LOST: GPU 1 of " in launched.stdout
    assert "Rank 1 (process 1, pid " in launched.stdout


def test_a_node_without_busbw_is_named(here: Path, tmp_path: Path) -> None:
    folder = tmp_path / "engine only"
    folder.mkdir()
    shutil.copy((installed_in() / "busbw-engine").resolve(), folder / "busbw-engine")
    words = ["local", "--processes", "2", "--program-path", str(folder)]
    with Launching(words, here, {"PATH": "/usr/bin:/bin"}, command="find") as launching:
        launched = launching.finish()
    assert (launched.code, launched.stdout) == (3, "")
    message = "busbw-engine flows: process 0 needs the busbw command on its node; install the wheel there"
    assert launched.stderr.count(message) == 1
