"""The batch scripts of deploy/slurm are what the command that each of them names prints."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BUSBW, ROOT
from polling import HANG_GUARD_S

SCRIPTS = sorted((ROOT / "deploy" / "slurm").glob("*.sbatch"))


def command_of(script: Path) -> list[str]:
    (line,) = [line for line in script.read_text().splitlines() if line.startswith("#   busbw ")]
    return shlex.split(line.removeprefix("#   busbw "))


@pytest.mark.parametrize("script", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_a_script_is_what_its_command_prints(script: Path, tmp_path: Path) -> None:
    # Elsewhere than here: no programs, and nothing of Slurm's around.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "BUSBW_"))}
    done = subprocess.run(
        [*BUSBW, *command_of(script)],
        cwd=tmp_path,
        env={**kept, "BUSBW_PROGRAMS": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=HANG_GUARD_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == script.read_text(), f"(cd {script.parent} && busbw {shlex.join(command_of(script))})"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_a_shell_understands_it(script: Path) -> None:
    done = subprocess.run([shutil.which("bash") or "bash", "-n", str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_deployments_in_use_need_is_there() -> None:
    assert {path.name for path in SCRIPTS} == {"one-node.sbatch", "two-nodes.sbatch", "p4de.24xlarge-pyxis.sbatch"}
    container = (ROOT / "deploy" / "slurm" / "p4de.24xlarge-pyxis.sbatch").read_text()
    for word in (
        "--container-image=/apps/busbw.sqsh",
        "#SBATCH --gpus-per-node=8",
        "#SBATCH --ntasks=16",
        "FI_PROVIDER=efa",
    ):
        assert word in container
