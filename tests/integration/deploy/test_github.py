"""The workflow of deploy/github, run step by step with the installed programs as GitHub runs it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from polling import HANG_GUARD_S

from busbw.judge import EXIT_OF

from ..programs import Programs

WORKFLOW = Path(__file__).parents[3] / "deploy" / "github" / "busbw.yml"
FLOW: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())
(JOB,) = FLOW["jobs"].values()

QUICK = {"SWEEP": "-b 1K -e 64K -f 8 -n 5 -w 1", "CHECK": "--system here"}
"""A shorter sweep than that of the workflow. The other settings are the workflow's."""


@pytest.fixture
def environment(programs: Programs, tmp_path: Path) -> dict[str, str]:
    """The variables of a step: the workflow's, and those that GitHub sets. `busbw` is that of this Python."""
    tools = tmp_path / "tools"
    tools.mkdir()
    command = tools / "busbw"
    command.write_text(f"#!{sys.executable}\nimport sys\nfrom busbw.cli.entry_point import main\nsys.exit(main())\n")
    command.chmod(0o755)
    return {
        **os.environ,
        **FLOW["env"],
        **QUICK,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }


def run_step(name: str, environment: dict[str, str], folder: Path) -> "subprocess.CompletedProcess[str]":
    """Runs a step by the command that GitHub documents for `shell: bash`."""
    assert JOB["defaults"]["run"]["shell"] == "bash"
    (script,) = [step["run"] for step in JOB["steps"] if step["name"] == name]
    bash = shutil.which("bash") or "bash"
    return subprocess.run(
        [bash, "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_GUARD_S,
    )


def test_all_steps_in_their_order(environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    steps = [step["name"] for step in JOB["steps"] if "run" in step]
    assert steps == ["Versions", "Measure", "Export", "Check"]
    for name in steps[:-1]:
        done = run_step(name, environment, folder)
        assert done.returncode == 0, (name, done.stderr)
    last = run_step(steps[-1], environment, folder)
    verdict = json.loads((folder / "verdict.json").read_text())
    assert last.returncode == EXIT_OF[verdict["grade"]], last.stderr
    assert json.loads(last.stdout) == verdict

    grades = [entry["grade"] for entry in verdict["verdicts"]]
    cases = list(ElementTree.parse(folder / "busbw.xml").iter("testcase"))
    assert [
        prop.get("value") for case in cases for prop in case.iter("property") if prop.get("name") == "grade"
    ] == grades
    assert "busbw_verdict{" in (folder / "busbw.prom").read_text()
    assert "busbw out of place (GB/s)" in (tmp_path / "summary.md").read_text()

    (upload,) = [step for step in JOB["steps"] if "uses" in step]
    for pattern in upload["with"]["path"].split():
        assert list(folder.glob(pattern)), pattern


def test_wrong_data_fail_the_job(environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    wrong = {**environment, "SWEEP": f"{QUICK['SWEEP']} --fault flip:rank=1,index=3,bit=4"}
    measured = run_step("Measure", wrong, folder)
    assert measured.returncode == 1, measured.stderr
    assert run_step("Export", wrong, folder).returncode == 0
    assert run_step("Check", wrong, folder).returncode == EXIT_OF["BROKEN"]
    failures = list(ElementTree.parse(folder / "busbw.xml").iter("failure"))
    assert "BROKEN" in {failure.get("type") for failure in failures}


def test_later_steps_run_after_a_failed_measurement() -> None:
    names = [step["name"] for step in JOB["steps"] if step.get("if") == "${{ !cancelled() }}"]
    assert names == ["Export", "Check", "Keep the results"]


def test_actions_have_a_version() -> None:
    for step in JOB["steps"]:
        assert "uses" not in step or re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"])
