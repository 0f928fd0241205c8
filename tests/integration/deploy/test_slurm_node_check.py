"""deploy/slurm/busbw-node-check.sh in a real Slurm, as HealthCheckProgram and as prolog."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from polling import wait_until

from busbw.doctor.result import ReportedFinding, Result
from busbw.support.json_output import json_object

from ..launchers import slurm as real_slurm

DEPLOY = Path(__file__).parents[3] / "deploy"
FOUND = ReportedFinding(
    check="memlock", severity="broken", problem="locked memory is limited to 64 KiB", evidence=(), fix="", source=""
)
REASON = "busbw doctor: memlock: locked memory is limited to 64 KiB"
BROKEN_NODES = {"prolog": "n2", "health": "n3"}
"""Node on which doctor finds something, by the use of the script."""
SETTINGS = """\
HealthCheckProgram={folder}/health
HealthCheckInterval=1
Prolog={folder}/prolog
PrologFlags=Alloc
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[real_slurm.Slurm]:
    """Three nodes. On n1, doctor cannot examine anything."""
    if why := real_slurm.skip_reason():
        pytest.skip(f"no Slurm here: {why}")
    folder, cluster_folder = tmp_path_factory.mktemp("recipe"), tmp_path_factory.mktemp("slurm")
    for script in (DEPLOY / "doctor-line.sh", DEPLOY / "slurm" / "busbw-node-check.sh"):
        shutil.copy(script, folder)
    (folder / "result").write_bytes(json_object(Result(findings=(FOUND,))))
    (folder / "doctor").write_text(f'[ "$(hostname)" = "$1" ] || exit 3\ncat {folder}/result\nexit 1\n')
    for name, node in BROKEN_NODES.items():
        script = folder / name
        script.write_text(
            f"#!/bin/sh\n[ -e {folder}/ready ] || exit 0\nexport SLURM_CONF={cluster_folder}/slurm.conf\n"
            f'BUSBW_DOCTOR="sh {folder}/doctor {node}" exec {folder}/busbw-node-check.sh\n'
        )
        script.chmod(0o755)
    cluster = real_slurm.Slurm(cluster_folder, nodes=3, settings=SETTINGS.format(folder=folder))
    try:
        cluster.start()
        (folder / "ready").touch()  # the start of the cluster waits for idle nodes
        yield cluster
    finally:
        cluster.stop()


def state_of(slurm: real_slurm.Slurm, node: str) -> str:
    """State and reason of a node."""
    words = ("sinfo", "--noheader", "--Node", f"--nodes={node}", "--partition=main", "--format=%T %E")
    return slurm.run(*words).stdout.strip()


def test_a_prolog_drains_the_broken_node_and_its_job_waits(slurm: real_slurm.Slurm) -> None:
    job = slurm.run("sbatch", "--parsable", "--nodelist=n2", "--output=/dev/null", "--wrap=true").stdout.strip()
    wait_until(lambda: state_of(slurm, "n2") == f"drained {REASON}", "n2 drained")
    assert slurm.run("squeue", "--noheader", "--format=%i %T").stdout.split() == [job, "PENDING"]
    slurm.run("scancel", job)


def test_a_job_runs_on_a_node_that_cannot_be_examined(slurm: real_slurm.Slurm) -> None:
    assert slurm.run("srun", "--nodelist=n1", "hostname").stdout == "n1\n"
    assert state_of(slurm, "n1") in ("idle none", "completing none", "allocated none", "mixed none")


def test_a_health_check_drains_the_broken_node(slurm: real_slurm.Slurm) -> None:
    wait_until(lambda: state_of(slurm, "n3") == f"drained {REASON}", "n3 drained")
