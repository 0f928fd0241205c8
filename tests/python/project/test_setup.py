"""tools/setup.sh: is the installed busbw that of the sources?"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

OLD_S, STAMP_S, NEW_S = 1_000_000_000, 1_000_000_100, 1_000_000_200
SOURCES = ["common", "engine", "fastpath", "src", "cmake", "deploy", "CMakeLists.txt", "pyproject.toml"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Sources that are older than what is installed."""
    for name in SOURCES:
        source, copy = ROOT / name, tmp_path / name
        if source.is_dir():
            shutil.copytree(source, copy, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    for path in [tmp_path, *tmp_path.rglob("*")]:
        os.utime(path, (OLD_S, OLD_S), follow_symlinks=False)
    stamp, command = tmp_path / ".venv/.busbw/busbw", tmp_path / ".venv/bin/busbw"
    for path in (stamp, command):
        path.parent.mkdir(parents=True)
        path.touch()
        path.chmod(0o755)
    os.utime(stamp, (STAMP_S, STAMP_S))
    os.utime(tmp_path, (OLD_S, OLD_S))
    return tmp_path


def is_current(checkout: Path) -> bool:
    """Result of the script's own function for a checkout."""
    text = (ROOT / "tools" / "setup.sh").read_text()
    function = re.search(r"^busbw_is_current\(\) \{\n.*?^\}\n", text, re.DOTALL | re.MULTILINE)
    assert function is not None
    script = f"set -eu\nvenv=.venv\nstamps=$venv/.busbw\n{function[0]}\nbusbw_is_current && echo current || echo old"
    done = subprocess.run(["bash", "-c", script], cwd=checkout, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout == "current\n"


def test_unchanged_sources_are_not_rebuilt(checkout: Path) -> None:
    assert is_current(checkout)


@pytest.mark.parametrize(
    "name",
    [
        "engine/options/options.cpp",
        "fastpath/choice/settings.cpp",
        "src/busbw/engine.py",
        "src/busbw/launchers/machine_types/p5.48xlarge.toml",
        "cmake",
    ],
)
def test_a_change_is_detected(checkout: Path, name: str) -> None:
    os.utime(checkout / name, (NEW_S, NEW_S))
    assert not is_current(checkout)


def test_symbolic_links_in_the_sources_are_followed(checkout: Path) -> None:
    links = [path for name in SOURCES[:4] for path in (checkout / name).rglob("*") if path.is_symlink()]
    assert links
    for link in links:
        os.utime(link.resolve(), (NEW_S, NEW_S))
        assert not is_current(checkout), link
        os.utime(link.resolve(), (OLD_S, OLD_S))
