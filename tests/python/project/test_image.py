"""The container recipe: does it pass its linter, and does an image get the files that it is built from?"""

import fnmatch
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RECIPE = (ROOT / "deploy" / "Dockerfile").read_text()


def test_the_linter_reports_nothing() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([hadolint, "deploy/Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_build_inputs_are_in_the_context() -> None:
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert patterns[0] == "*"
    sent = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    cmake = (ROOT / "CMakeLists.txt").read_text()
    needed = {"pyproject.toml", "CMakeLists.txt", "README.md", "engine/main.cpp", "src/busbw/__init__.py"}
    needed |= set(re.findall(r"include\((cmake/\w+\.cmake)\)", cmake))
    needed |= {f"{folder}/CMakeLists.txt" for folder in re.findall(r"(?m)^add_subdirectory\((\w+)\)", cmake)}
    needed |= {str(file.relative_to(ROOT)) for file in (ROOT / "share").rglob("*") if file.is_file()}
    # Package data that is a link to another folder needs that folder too.
    links = [path for path in (ROOT / "src").rglob("*") if path.is_symlink()]
    assert links
    needed |= {str(file.relative_to(ROOT)) for link in links for file in link.resolve().iterdir()}
    for name in needed:
        assert (ROOT / name).exists(), name
        assert any(name == one or name.startswith(f"{one}/") for one in sent), name
    assert not any(fnmatch.fnmatch("build", one) or fnmatch.fnmatch(".git", one) for one in sent)


def test_every_image_that_runs_has_no_privileges() -> None:
    stages = re.split(r"(?m)^FROM ", RECIPE)[1:]
    last_user = {stage.split(" AS ")[1].split()[0]: re.findall(r"(?m)^USER (.*)$", stage)[-1:] for stage in stages}
    for target in ("cpu", "infiniband", "efa", "mpijob"):
        assert last_user[target] == ["1000:1000"]


def test_sshd_is_only_in_the_image_that_needs_it() -> None:
    stages = re.split(r"(?m)^FROM ", RECIPE)[1:]
    with_sshd = {stage.split(" AS ")[1].split()[0] for stage in stages if "openssh-server" in stage}
    assert with_sshd == {"mpijob"}


def test_every_version_has_a_default_that_the_documentation_names() -> None:
    page = (ROOT / "docs" / "guides" / "containers.md").read_text()
    versions = dict(re.findall(r"(?m)^ARG (\w+_VERSION)=(\S+)$", RECIPE))
    assert set(versions) == {
        "CUDA_VERSION",
        "NCCL_VERSION",
        "GDRCOPY_VERSION",
        "EFA_INSTALLER_VERSION",
        "AWS_OFI_NCCL_VERSION",
    }
    for name, value in versions.items():
        assert re.search(rf"(?m)^\| `{name}` \| `?{re.escape(value)}`? \|", page), name
