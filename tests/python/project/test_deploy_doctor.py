"""Recipes of deploy/ that run `busbw doctor`: scripts for Slurm and node-problem-detector, manifests and units."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from conftest import BUSBW, ROOT
from doctor_machines import TestMachine, load
from polling import HANG_GUARD_S
from prometheus_client.parser import text_string_to_metric_families

from busbw.doctor.result import Missing, ReportedFinding, Result
from busbw.doctor.sources.capture import archive_bytes
from busbw.support.json_output import json_object

DEPLOY = ROOT / "deploy"
LINE, NODE_CHECK = DEPLOY / "doctor-line.sh", DEPLOY / "slurm" / "busbw-node-check.sh"
KUBERNETES = DEPLOY / "kubernetes"
UNITS = DEPLOY / "systemd"

HEALTHY = load("nd-h100-v5")
BROKEN = HEALTHY.with_fact("limits", memlock_bytes=65536)
BROKEN_LINE = "memlock: locked memory is limited to 64 KiB; RDMA needs it unlimited"

DOCTOR_WORDS = ("doctor", "--fail-on", "broken")
"""Arguments of busbw in all scripts."""

Done = subprocess.CompletedProcess[str]


def run(script: Path, doctor: str, folder: Path, **variables: str) -> Done:
    """Runs a script with the folder first in PATH."""
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "BUSBW_DOCTOR": doctor,
        **variables,
    }
    return subprocess.run(
        [script], cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_GUARD_S, check=False
    )


def capture_options(machine: TestMachine, folder: Path) -> str:
    """Options to examine a capture of a machine by one check."""
    capture = folder / "capture.tar.gz"
    capture.write_bytes(archive_bytes(machine.tree))
    return f"--root {capture} --check memlock"


def doctor_of(machine: TestMachine, folder: Path) -> str:
    """The real command, on a capture of a machine."""
    return f"{shlex.join([*BUSBW, *DOCTOR_WORDS])} {capture_options(machine, folder)}"


def fake_doctor(folder: Path, output: bytes, code: int) -> str:
    """A command that prints a text and ends with a code."""
    (folder / "output").write_bytes(output)
    script = folder / "doctor"
    script.write_text(f"cat {folder}/output\nexit {code}\n")
    return f"sh {script}"


def test_all_recipes_run_the_same_command() -> None:
    for path in (LINE, KUBERNETES / "node-problem-detector.yaml", KUBERNETES / "doctor-init-container.yaml"):
        assert f"busbw {' '.join(DOCTOR_WORDS)}" in path.read_text()


def finding(problem: str) -> Result:
    found = ReportedFinding(
        check="gpu-off-bus", severity="broken", problem=problem, evidence=(), fix="", source="", cost_text=""
    )
    return Result(findings=(found, found))


def test_one_line_and_exit_code_of_a_real_examination(tmp_path: Path) -> None:
    done = run(LINE, doctor_of(BROKEN, tmp_path), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, f"{BROKEN_LINE}\n", "")
    done = run(LINE, doctor_of(HEALTHY, tmp_path), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing is broken\n", "")


@pytest.mark.parametrize(
    ("result", "code", "expected_code", "expected_line"),
    [
        (finding('GPU2 "fell" off'), 1, 1, 'gpu-off-bus: GPU2 "fell" off'),
        (finding("mlx5_3 runs at x8"), 5, 1, "gpu-off-bus: mlx5_3 runs at x8"),
        (finding("x" * 1000), 1, 1, "gpu-off-bus: " + "x" * 227),
        (Result(could_not_check=(Missing(check="gpu-xid", missing="dmesg"),)), 3, 2, "unknown: gpu-xid"),
        (Result(), 1, 2, "unknown: the examination ended with exit code 1"),
        (Result(), 124, 2, "unknown: the examination ended with exit code 124"),
    ],
)
def test_each_outcome_is_one_line(
    result: Result, code: int, expected_code: int, expected_line: str, tmp_path: Path
) -> None:
    done = run(LINE, fake_doctor(tmp_path, json_object(result), code), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (expected_code, f"{expected_line}\n", "")


@pytest.mark.parametrize("doctor", ["no-such-command", "python3 -c 'raise RuntimeError' #"])
def test_an_examination_that_cannot_run_is_unknown(doctor: str, tmp_path: Path) -> None:
    done = run(LINE, doctor, tmp_path)
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("unknown: the examination ended with exit code ")


@pytest.fixture
def slurm(tmp_path: Path) -> Path:
    """A folder with both scripts, and a command scontrol that logs its arguments and prints the file `state`."""
    for script in (LINE, NODE_CHECK):
        shutil.copy(script, tmp_path)
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/calls\n[ "$1" != show ] || cat {tmp_path}/state\n')
    scontrol.chmod(0o755)
    (tmp_path / "state").write_text("NodeName=n1 Arch=x86_64\n   State=IDLE+CLOUD ThreadsPerCore=2\n")
    return tmp_path


def calls(slurm: Path) -> list[str]:
    log = slurm / "calls"
    return log.read_text().splitlines() if log.exists() else []


def test_a_broken_node_is_drained_with_the_reason(slurm: Path) -> None:
    done = run(slurm / NODE_CHECK.name, doctor_of(BROKEN, slurm), slurm, SLURMD_NODENAME="n1")
    assert (done.returncode, done.stderr) == (0, f"busbw doctor: {BROKEN_LINE}\n")
    assert calls(slurm) == [
        "show node n1",
        f"update NodeName=n1 State=DRAIN Reason=busbw doctor: {BROKEN_LINE}",
    ]


def test_the_prolog_fails_on_a_broken_node(slurm: Path) -> None:
    done = run(slurm / NODE_CHECK.name, doctor_of(BROKEN, slurm), slurm, SLURMD_NODENAME="n1", SLURM_JOB_ID="7")
    assert done.returncode == 1
    assert len(calls(slurm)) == 2


def test_a_drained_node_keeps_its_reason(slurm: Path) -> None:
    (slurm / "state").write_text("NodeName=n1\n   State=MIXED+DRAIN ThreadsPerCore=2\n   Reason=disk\n")
    done = run(slurm / NODE_CHECK.name, doctor_of(BROKEN, slurm), slurm, SLURMD_NODENAME="n1", SLURM_JOB_ID="7")
    assert done.returncode == 1
    assert calls(slurm) == ["show node n1"]


def test_node_and_job_are_left_alone_without_a_broken_part(slurm: Path) -> None:
    unknown = Result(could_not_check=(Missing(check="gpu-xid", missing="dmesg"),))
    for doctor in (
        doctor_of(HEALTHY, slurm),
        fake_doctor(slurm, json_object(unknown), 3),
        fake_doctor(slurm, b"Traceback (most recent call last):\n", 1),
        "no-such-command",
    ):
        done = run(slurm / NODE_CHECK.name, doctor, slurm, SLURMD_NODENAME="n1", SLURM_JOB_ID="7")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not calls(slurm)


def test_slurmd_may_start_it_without_a_path(slurm: Path) -> None:
    script = slurm / NODE_CHECK.name
    done = subprocess.run([script], env={}, capture_output=True, text=True, timeout=HANG_GUARD_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_scripts_follow_shellcheck() -> None:
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run([shellcheck, LINE, NODE_CHECK], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def objects_of(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((KUBERNETES / name).read_text()))


@pytest.mark.parametrize("name", ["node-problem-detector.yaml", "doctor-init-container.yaml"])
def test_manifests_are_valid(name: str) -> None:
    for each in objects_of(name):
        kubernetes_validate.validate(each, "1.34", strict=True)


def test_node_problem_detector_finds_its_plugin() -> None:
    (container,) = objects_of("node-problem-detector.yaml")[-1]["spec"]["template"]["spec"]["containers"]
    configuration = json.loads((KUBERNETES / "node-problem-detector.json").read_text())
    folder = next(mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "plugin")
    assert f"--config.custom-plugin-monitor={folder}/node-problem-detector.json" in container["command"]
    (rule,) = configuration["rules"]
    assert rule["path"] == f"{folder}/{LINE.name}"
    assert rule["condition"] == configuration["conditions"][0]["type"]
    instructions = (KUBERNETES / "node-problem-detector.yaml").read_text().partition("apiVersion")[0]
    for path in (LINE, KUBERNETES / "node-problem-detector.json"):
        assert f"--from-file={path.relative_to(ROOT)}" in instructions


def test_the_init_container_fails_only_on_a_broken_node(tmp_path: Path) -> None:
    (container,) = objects_of("doctor-init-container.yaml")[0]["spec"]["template"]["spec"]["initContainers"]
    command = tmp_path / "busbw"
    for code, expected in ((0, 0), (1, 1), (3, 0), (5, 1)):
        command.write_text(f"#!/bin/sh\nexit {code}\n")
        command.chmod(0o755)
        path = f"{tmp_path}:{os.environ['PATH']}"
        done = subprocess.run(container["command"], env={"PATH": path}, check=False)
        assert done.returncode == expected


def test_units_are_valid() -> None:
    service, timer = configparser.ConfigParser(interpolation=None, strict=False), configparser.ConfigParser()
    for parser in (service, timer):
        parser.optionxform = str  # type: ignore[assignment,method-assign]
    service.read(UNITS / "busbw-doctor.service")
    timer.read(UNITS / "busbw-doctor.timer")
    assert service["Service"]["SuccessExitStatus"] == "1 3 5"
    assert timer["Install"]["WantedBy"] == "timers.target"
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        units = [UNITS / f"busbw-doctor.{kind}" for kind in ("service", "timer")]
        done = subprocess.run([analyze, "verify", *units], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_service_writes_metrics(tmp_path: Path) -> None:
    (command,) = re.findall(r"^ExecStart=/usr/bin/env busbw (.*)$", (UNITS / "busbw-doctor.service").read_text(), re.M)
    metrics = tmp_path / "doctor.prom"
    (tmp_path / "busbw").write_text(f'#!/bin/sh\nexec {shlex.join(BUSBW)} "$@" {capture_options(BROKEN, tmp_path)}\n')
    (tmp_path / "busbw").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PROMETHEUS_FILE": str(metrics)}
    done = subprocess.run(["sh", "-c", f"busbw {command}"], env=environment, capture_output=True, check=False)
    assert done.returncode == 1
    families = {family.name: family for family in text_string_to_metric_families(metrics.read_text())}
    (sample,) = families["busbw_doctor_finding"].samples
    assert (sample.labels["check"], sample.labels["severity"]) == ("memlock", "broken")
