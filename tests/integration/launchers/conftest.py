"""A `busbw` and an engine in a folder of their own, and the launchers that start them on real nodes."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from installed import installed_in

from . import private_sshd
from .private_sshd import PrivateSshd
from .slurm import Slurm


@pytest.fixture
def install(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Returns a function that makes a `busbw` with a body, and returns variables with its folder first on PATH.

    The folder also has the engine, which prefers the `busbw` beside it.
    """

    def write(body: str) -> dict[str, str]:
        folder = tmp_path / "bin"
        folder.mkdir()
        script = folder / "busbw"
        script.write_text(f"#!{sys.executable}\nimport sys\nfrom busbw.cli.main import main\n{body}\n")
        script.chmod(0o755)
        shutil.copy((installed_in() / "busbw-engine").resolve(), folder / "busbw-engine")
        return {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}

    return write


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateSshd]:
    if reason := private_sshd.skip_reason():
        pytest.skip(reason)
    with PrivateSshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def on_slurm(slurm: Slurm) -> dict[str, str]:
    kept = {name: value for name, value in slurm.with_slurm().items() if not name.startswith("BUSBW_")}
    return {**kept, "BUSBW_PROGRAMS": str(installed_in())}
