"""Calls of Slurm's commands, with fakes. tests/integration has tests with the real commands."""

import os
from pathlib import Path

import pytest
from fake_slurm import FakeSlurm
from launch_jobs import GOLDEN

from busbw.errors import BusbwError
from busbw.launchers.slurm import commands

SAID = GOLDEN / "slurm" / "said"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return FakeSlurm(tmp_path)


@pytest.mark.parametrize("said", ["12\n", "12;cluster\n", "a greeting of the site\n12\n"])
def test_the_id_of_a_new_job(fake: FakeSlurm, said: str) -> None:
    fake.says("sbatch", said)
    assert commands.submit(["sbatch", "--parsable", "x"], os.environ, name="busbw-x") == "12"
    assert fake.asked("sbatch") == ["sbatch --parsable x"]


def test_a_rejection(fake: FakeSlurm) -> None:
    fake.says("sbatch", error="sbatch: error: Batch job submission failed: Invalid feature specification\n", code=1)
    with pytest.raises(BusbwError) as raised:
        commands.submit(["sbatch", "x"], os.environ, name="busbw-x")
    assert raised.value.exit_code == 3
    assert str(raised.value) == (
        "Slurm rejected the job: Batch job submission failed: Invalid feature specification; "
        "set --constraint to a feature from `sinfo -o '%N %f'`"
    )


def test_a_rejection_without_a_message(fake: FakeSlurm) -> None:
    fake.says("sbatch", code=77)
    with pytest.raises(BusbwError, match="Slurm rejected the job: exit code 77"):
        commands.submit(["sbatch", "x"], os.environ, name="busbw-x")


@pytest.mark.parametrize(
    ("refusal", "what"),
    [("", "job busbw-x is canceled if it exists"), ("no contact", "job busbw-x may wait or run: no contact")],
)
def test_a_submission_without_an_answer_is_canceled_by_name(
    fake: FakeSlurm, monkeypatch: pytest.MonkeyPatch, refusal: str, what: str
) -> None:
    monkeypatch.setattr(commands, "_ANSWER_LIMIT_S", 0.5)
    (fake.folder / "sbatch.says").write_text("exec sleep 60\n")
    if refusal:
        fake.says("scancel", error=f"scancel: error: {refusal}\n", code=1)
    with pytest.raises(commands.SlurmUnreachableError) as raised:
        commands.submit(["sbatch", "x"], os.environ, name="busbw-x")
    assert fake.asked("scancel") == ["scancel --name=busbw-x"]
    assert str(raised.value) == (
        f"sbatch did not answer within 0.5 s; {what}; if the job appears later: scancel --name=busbw-x"
    )


def test_scontrol_knows_a_job_after_squeue(fake: FakeSlurm) -> None:
    fake.says("squeue")
    fake.says("scontrol", (SAID / "scontrol_failed.txt").read_text())
    found = commands.status("10")
    assert found is not None
    assert found.state == "FAILED"
    assert fake.asked("scontrol") == ["scontrol --oneliner show job 10"]
    fake.forgets()
    assert commands.status("10") is None


def test_a_step_by_name(fake: FakeSlurm) -> None:
    fake.says("squeue", "12.0 other\n12.1 busbw-all-reduce-1a2b3c\n12.batch batch\n\n")
    assert commands.find_step("busbw-all-reduce-1a2b3c") == "12.1"
    assert commands.find_step("busbw") == ""


def test_a_step_query_that_fails(fake: FakeSlurm) -> None:
    fake.says("squeue", error="slurm_load_jobs error: Unable to contact slurm controller\n", code=1)
    with pytest.raises(commands.SlurmUnreachableError, match="Unable to contact slurm controller"):
        commands.find_step("busbw")


def test_whether_a_cancel_worked(fake: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commands.cancel("12", signal="INT") == ""
    assert commands.cancel_named("busbw") == ""
    assert fake.asked("scancel") == ["scancel --signal=INT 12", "scancel --name=busbw"]
    fake.says("scancel", error="scancel: error: Kill job error on job id 12: Invalid job id specified\n", code=1)
    assert commands.cancel("12") == ""  # it has ended, and Slurm has forgotten it
    fake.says("scancel", error="scancel: error: Unable to contact slurm controller (connect failure)\n", code=1)
    assert commands.cancel("12") == "Unable to contact slurm controller (connect failure)"
    assert commands.cancel_named("busbw") == "Unable to contact slurm controller (connect failure)"
    fake.says("scancel", code=9)
    assert commands.cancel("12") == "exit code 9"
    (fake.folder / "scancel").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(commands, "_ANSWER_LIMIT_S", 0.2)
    assert commands.cancel("12") == "scancel did not answer within 0.2 s"


def test_nodes_that_do_not_work(fake: FakeSlurm) -> None:
    fake.says("sinfo", (SAID / "sinfo_nodes.txt").read_text())
    assert commands.nodes_down("n[2,4]") == ("n4 is down: Not responding",)
    fake.says("sinfo", "n1|allocated*|Not responding\nn2|drained|upgrade\nn3|mixed|none\nn4|fail|none\n")
    assert commands.nodes_down("n[1-4]") == ("n1 is allocated: Not responding", "n4 is fail")
    assert commands.nodes_down("") == ()


def test_a_query_that_fails(fake: FakeSlurm) -> None:
    fake.says("scontrol", error="slurm_load_topo error: Unable to contact slurm controller\n", code=1)
    with pytest.raises(BusbwError, match=r"scontrol show topology: .*; launch on a machine where squeue works"):
        commands.run_for_output(["scontrol", "show", "topology"])


def test_no_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BusbwError, match="squeue not found; launch on a machine with Slurm's commands"):
        commands.status("12")
