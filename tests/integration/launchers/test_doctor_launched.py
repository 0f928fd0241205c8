"""`busbw doctor` in jobs of the real launchers, with the real engine. Captures stand for nodes that differ."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from installed import installed_in

from .. import mpi
from .launching import Launched, Launching, with_program
from .private_sshd import PrivateSshd

Install = Callable[[str], dict[str, str]]
REAL = "sys.exit(main())"
"""Body of a `busbw` that checks."""
FAILS_ON_N2 = "import platform\nif platform.node() == 'n2': sys.exit(7)\nsys.exit(main())"
HANGS_ON_N2 = "import platform, time\nif platform.node() == 'n2': time.sleep(100)\nsys.exit(main())"


@pytest.fixture
def captures(here: Path) -> Path:
    """Captures of the nodes n1 to n4, of which n3 has another kernel."""
    folder = here.parent / "captures"
    for node in ("n1", "n2", "n3", "n4"):
        files = {
            "manifest.json": "{}",
            "proc/sys/kernel/osrelease": "5.15.0-1042" if node == "n3" else "5.15.0-1046",
            "facts/limits.json": "{}",
        }
        for name, content in files.items():
            path = folder / node / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    return folder


def doctor(words: list[str], here: Path, environment: dict[str, str]) -> Launched:
    with Launching(with_program(words, here), here, environment, command="doctor") as launching:
        return launching.finish()


def result_of(launched: Launched) -> dict[str, Any]:
    """Returns the result, after which nothing is left in the folder."""
    assert launched.stdout, launched.stderr
    assert list(launched.folder.iterdir()) == []
    result: dict[str, Any] = json.loads(launched.stdout)
    return result


def require_odd_kernel(launched: Launched) -> None:
    result = result_of(launched)
    assert result["nodes"] == ["n1", "n2", "n3", "n4"]
    (finding,) = [each for each in result["findings"] if each["check"] == "kernel-differs"]
    assert finding["node"] == "n3"
    assert finding["problem"] == "3 of 4 nodes have kernel 5.15.0-1046; n3 has 5.15.0-1042"


def test_local(install: Install, here: Path) -> None:
    environment = install(REAL)
    launched = doctor(["local", "--json"], here, environment)
    assert launched.code in (0, 1, 3, 5), launched.stderr  # this machine decides
    assert "nodes" not in result_of(launched)
    assert re.search(r"\b[1-9]\d* passed, ", doctor(["local"], here, environment).stdout)


@pytest.mark.parametrize("family", mpi.FAMILIES)
def test_mpirun_checks_a_node_once(family: str, install: Install, here: Path) -> None:
    if reason := mpi.skip_reason(family):
        pytest.skip(reason)
    words = ["mpirun", "--mpirun", str(mpi.mpirun(family)), "--hosts", "localhost:3", "--json"]
    assert "nodes" not in result_of(doctor([*words, "--oversubscribe"], here, install(REAL)))


def test_ssh_shows_the_other_nodes_if_one_has_no_capture(
    sshd: PrivateSshd, install: Install, here: Path, captures: Path
) -> None:
    variables = [word for pair in install(REAL).items() for word in ("--env", "=".join(pair))]
    words = ["ssh", "--ssh", sshd.ssh, "--hosts", "node1,node2", "--root-address", "127.0.0.1", *variables]
    launched = doctor([*words, "--root", str(captures / "{node}"), "--json"], here, {})
    # Both names are this machine, so one process checks it.
    (missing,) = result_of(launched)["could_not_check"]
    assert "does not exist" in missing["missing"]
    assert launched.code == 3


@pytest.mark.parametrize("submit_with", ["sbatch", "srun"])
def test_slurm_names_the_odd_node(
    submit_with: str, on_slurm: dict[str, str], install: Install, here: Path, captures: Path
) -> None:
    words = ["slurm", "--nodes", "4", "--shared", "--submit-with", submit_with, "--json", "--check", "kernel-differs"]
    launched = doctor([*words, "--root", str(captures / "{node}")], here, {**on_slurm, **install(REAL)})
    require_odd_kernel(launched)
    assert launched.code == 0


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (FAILS_ON_N2, "the command failed with exit code 7"),
        (HANGS_ON_N2, "the command did not end within 10 s"),
    ],
)
def test_slurm_shows_the_other_nodes_if_one_fails(
    body: str, problem: str, on_slurm: dict[str, str], install: Install, here: Path, captures: Path
) -> None:
    words = ["slurm", "--nodes", "4", "--shared", "--submit-with", "srun", "--root", str(captures / "{node}")]
    launched = doctor(words, here, {**on_slurm, **install(body)})
    assert f"could not check: n2: {problem}" in " ".join(launched.stdout.split())
    assert "nodes differ in kernel: 5.15.0-1046 on n1, n4; 5.15.0-1042 on n3" in " ".join(launched.stdout.split())
    assert launched.code == 3


def test_a_node_without_busbw_is_named(here: Path, tmp_path: Path) -> None:
    folder = tmp_path / "engine only"
    folder.mkdir()
    shutil.copy((installed_in() / "busbw-engine").resolve(), folder / "busbw-engine")
    with Launching(
        ["local", "--program-path", str(folder)], here, {"PATH": "/usr/bin:/bin"}, command="doctor"
    ) as launching:
        launched = launching.finish()
    assert (launched.code, launched.stdout) == (3, "")
    message = "busbw-engine each-node: process 0 needs the busbw command on its node; install the wheel there"
    assert launched.stderr.count(message) == 1


def test_slurm_attach_shows_the_result(on_slurm: dict[str, str], install: Install, here: Path, captures: Path) -> None:
    environment = {**on_slurm, **install(REAL)}
    words = ["slurm", "--nodes", "4", "--shared", "--detach", "--output-folder", "job", "--json"]
    assert doctor([*words, "--root", str(captures / "{node}")], here, environment).code == 0
    with Launching(["attach", "job"], here, environment) as attaching:
        require_odd_kernel(attaching.finish())
