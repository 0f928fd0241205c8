"""tools/gpu_test.sh as far as it needs no GPU: its arguments, and an environment made without a network."""

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "tools" / "gpu_test.sh"
DIST_INFO = "busbw-0.0.dist-info"
FILES = {
    "busbw-0.0.data/scripts/busbw-engine": "#!/bin/sh\necho the engine\n",
    f"{DIST_INFO}/METADATA": "Metadata-Version: 2.1\nName: busbw\nVersion: 0.0\nRequires-Dist: pytest\n",
    f"{DIST_INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: false\nTag: py3-none-any\n",
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The script in a tree of its own, in which it may build."""
    folder = tmp_path / "tree" / "tools"
    folder.mkdir(parents=True)
    (folder / SCRIPT.name).write_text(SCRIPT.read_text())
    return folder / SCRIPT.name


def run(script: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", str(script), *map(str, arguments)],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
    )


def wheel_in(folder: Path) -> Path:
    path = folder / "busbw-0.0-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in FILES.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16  # a file that may be run
            wheel.writestr(entry, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(text)}")
        wheel.writestr(f"{DIST_INFO}/RECORD", "\n".join([*record, f"{DIST_INFO}/RECORD,,"]) + "\n")
    return path


def test_a_missing_wheel_is_named(copy: Path) -> None:
    done = run(copy, "--weel", "x")
    assert done.returncode == 2
    assert done.stderr.startswith("gpu-test: unknown option --weel; allowed are --wheel, ")


def test_a_wheel_is_built_where_none_is_named(copy: Path, tmp_path: Path) -> None:
    """One that lies in dist/ may be of older sources."""
    dist = copy.parents[1] / "dist"
    dist.mkdir()
    (dist / "busbw-9.9-py3-none-any.whl").write_text("older than the sources\n")
    (copy.parent / "wheel.sh").write_text(f"#!/bin/sh\necho {wheel_in(tmp_path)}\n")
    (copy.parent / "wheel.sh").chmod(0o755)
    (tmp_path / "empty").mkdir()
    done = run(copy, "--offline", tmp_path / "empty", "--results", tmp_path / "results", "--prepare")
    assert done.returncode == 0, done.stderr
    assert "installing busbw-0.0-py3-none-any.whl into" in done.stderr


def test_old_results_are_not_mixed_with_new_ones(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "tests.txt").write_text("old\n")
    done = run(copy, "--wheel", wheel_in(tmp_path), "--results", tmp_path / "old")
    assert done.returncode == 2
    assert f"{tmp_path}/old is not empty" in done.stderr


def test_an_environment_without_a_network(copy: Path, tmp_path: Path) -> None:
    """The environment has the packages of this Python, and the programs of the wheel."""
    (tmp_path / "empty").mkdir()
    flags = ["--offline", str(tmp_path / "empty"), "--results", str(tmp_path / "results"), "--prepare"]
    done = run(copy, "--wheel", wheel_in(tmp_path), *flags)
    assert done.returncode == 0, done.stderr
    programs = copy.parents[1] / "build" / "gpu-env" / "bin"
    said = subprocess.run([programs / "busbw-engine"], capture_output=True, text=True, check=True).stdout
    assert said == "the engine\n"
    import_pytest = [str(programs / "python"), "-c", "import pytest; print(pytest.__version__)"]
    assert (
        subprocess.run(import_pytest, capture_output=True, text=True, check=True).stdout.strip() == pytest.__version__
    )
