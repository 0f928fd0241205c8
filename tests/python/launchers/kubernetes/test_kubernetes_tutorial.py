"""docs/tutorials/kubernetes.md: each of its launches renders objects that Kubernetes accepts."""

import re
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from conftest import ROOT
from doc_commands import read_commands, shell_environment

PAGE = ROOT / "docs" / "tutorials" / "kubernetes.md"
COMMANDS = [command.command for marks in ((), ("needs-cluster",)) for command in read_commands(PAGE, marks)]
LAUNCHES = [command for command in COMMANDS if "busbw launch" in command]
JOB_NAME = re.compile(r"busbw-all-reduce-[0-9a-f]{6}")


def render(command: str, folder: Path) -> str:
    """Returns the dry run of a launch."""
    dry_run = command if "--dry-run" in command else command.replace("launch kubernetes", "launch kubernetes --dry-run")
    done = subprocess.run(
        ["bash", "-c", dry_run], cwd=folder, env=shell_environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("command", LAUNCHES)
def test_the_objects_are_valid(command: str, tmp_path: Path) -> None:
    objects = list(yaml.safe_load_all(render(command, tmp_path)))
    assert [manifest["kind"] for manifest in objects] == ["Service", "Secret", "Job"]
    for manifest in objects:
        kubernetes_validate.validate(manifest, "1.34", strict=True)
        assert manifest["metadata"]["namespace"] == "bench"
    assert objects[-1]["spec"]["completions"] == 2


def test_the_dry_run_shows_what_is_measured(tmp_path: Path) -> None:
    dry_run, on_cpus, measured, *_ = LAUNCHES
    assert "--dry-run" in dry_run
    assert "--backend host" in on_cpus
    shown, created = (JOB_NAME.sub("JOB", render(command, tmp_path)) for command in (dry_run, measured))
    assert shown == created


def test_a_launch_requests_the_gpus_of_its_nodes(tmp_path: Path) -> None:
    requested = []
    for command in LAUNCHES:
        *_, job = yaml.safe_load_all(render(command, tmp_path))
        (container,) = job["spec"]["template"]["spec"]["containers"]
        requested.append(container["resources"].get("limits", {}).get("nvidia.com/gpu"))
    assert requested == ["8", None, "8", "8"]
