"""tools/setup.sh: is the installed busbw that of the sources, and which engine is built?"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

OLD_S, STAMP_S, NEW_S = 1_000_000_000, 1_000_000_100, 1_000_000_200
SOURCES = [
    "common",
    "engine",
    "fastpath",
    "src",
    "cmake",
    "deploy",
    "share",
    "CMakeLists.txt",
    "pyproject.toml",
    "profiler",
]


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
        "share/completion/_busbw.in",
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


FUNCTIONS = ("has_gpu", "present_architectures", "choose_engine")
NVIDIA_SMI = """#!/bin/sh
case $1 in
-L) echo "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)" ;;
*) printf '9.0\\n9.0\\n8.0\\n' ;;
esac
"""


def chosen_engine(folder: Path, goal: str, *, installed: str = "", has_gpu: bool = False, **variables: str) -> str:
    """Result of the script's own functions on a machine with or without GPUs."""
    if Path("/dev/nvidia0").exists() and not has_gpu:
        pytest.skip("this machine has a GPU")
    text = (ROOT / "tools" / "setup.sh").read_text()
    found = [re.search(rf"^{name}\(\) \{{.*?\}}\n(?=\n)", text, re.DOTALL | re.MULTILINE) for name in FUNCTIONS]
    functions = "\n".join(match[0] for match in found if match is not None)
    (folder / "bin").mkdir()
    if has_gpu:
        (folder / "bin/nvidia-smi").write_text(NVIDIA_SMI)
        (folder / "bin/nvidia-smi").chmod(0o755)
    if installed:
        (folder / "engine").write_text(f"{installed}\n")
    path = f"{folder}/bin:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-c", f"set -eu\nstamps={folder}\ngoal={goal}\n{functions}\nchoose_engine"],
        env={"PATH": path, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.rstrip("\n")


def test_make_run_builds_the_gpu_engine_for_the_gpus_that_are_present(tmp_path: Path) -> None:
    assert chosen_engine(tmp_path, "run", has_gpu=True) == "gpu 80-real;90-real"


def test_requested_architectures_have_priority(tmp_path: Path) -> None:
    assert chosen_engine(tmp_path, "gpu", has_gpu=True, CUDA_ARCHITECTURES="100-real") == "gpu 100-real"


def test_make_gpu_without_a_gpu_builds_for_all(tmp_path: Path) -> None:
    assert chosen_engine(tmp_path, "gpu") == "gpu "


@pytest.mark.parametrize("goal", ["run", "test", "lint"])
def test_without_a_gpu_cmake_decides(tmp_path: Path, goal: str) -> None:
    assert chosen_engine(tmp_path, goal) == "auto"


def test_cpu_1_builds_no_gpu_engine(tmp_path: Path) -> None:
    assert chosen_engine(tmp_path, "run", installed="gpu 90-real", has_gpu=True, CPU="1") == "cpu"


def test_an_installed_gpu_engine_is_kept(tmp_path: Path) -> None:
    assert chosen_engine(tmp_path, "test", installed="gpu 90-real") == "gpu 90-real"


def run_quietly(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command with the functions that all scripts share."""
    script = f"set -euo pipefail\nname=setup\nlog={folder}/log\n. {ROOT}/tools/quietly.sh\n{command}"
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)


def test_progress_of_a_build_has_the_part_done_and_the_remaining_time(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("  [1/200] Building a\n  [50/200] Building b\nnote: [x]\n")
    assert run_quietly(tmp_path, "build_progress 60").stdout == "60 s, 25 % built, about 180 s left"
    (tmp_path / "log").write_text("[19/200] Building a\n")
    assert run_quietly(tmp_path, "build_progress 60").stdout == "60 s, 9 % built", "too early for an estimate"
    (tmp_path / "log").write_text("[20/200] Building a\n")
    assert run_quietly(tmp_path, "build_progress 60").stdout == "60 s, 10 % built, about 540 s left"
    (tmp_path / "log").write_text("Installing build dependencies\n")
    assert run_quietly(tmp_path, "build_progress 7").stdout == "7 s"


def test_a_failed_command_shows_its_output_and_keeps_its_code(tmp_path: Path) -> None:
    done = run_quietly(tmp_path, "code=0; quietly sh -c 'echo cause; exit 9' || code=$?; echo $code")
    assert done.stdout == "9\n"
    assert done.stderr == f"cause\nsetup: failed: sh -c echo cause; exit 9 (output: {tmp_path}/log)\n"
    assert run_quietly(tmp_path, "quietly echo unseen").stderr == ""


def test_progress_is_a_line_each_30_s_even_if_seconds_are_skipped(tmp_path: Path) -> None:
    clock = "sleep() { SECONDS=$((SECONDS + 4)); [ $SECONDS -lt 100 ]; }"
    lines = run_quietly(tmp_path, f"{clock}; SECONDS=0; show_progress || true").stderr.splitlines()
    assert len(lines) == 3
    assert all(re.fullmatch(r"setup: \d+ s", line) for line in lines)


def test_programs_that_a_test_needs_are_installed_or_named(tmp_path: Path) -> None:
    text = (ROOT / "tools" / "setup.sh").read_text()
    functions = ""
    for name in ("has_program", "install_for_tests", "install_programs"):
        function = re.search(rf"^{name}\(\) \{{(.*\}}\n|\n(?s:.*?)^\}}\n)", text, re.MULTILINE)
        assert function is not None
        functions += function[0]
    apt = 'apt_install() { echo "$@"; }'
    call = "install_programs sh:dash no-such-program:a no-such-program-2:b"
    done = run_quietly(tmp_path, f"may_install() {{ true; }}\n{apt}\n{functions}\n{call}; install_programs sh:dash")
    assert (done.stdout, done.stderr) == ("a b\n", "setup: installing a b with apt-get\n")
    done = run_quietly(tmp_path, f"may_install() {{ false; }}\n{apt}\n{functions}\n{call}")
    assert done.stdout == ""
    assert done.stderr.startswith("setup: a b not found, and this user may not install it: tests that need it")


def test_the_cuda_environment_is_renewed_for_other_versions(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("cuda_env.sh", "quietly.sh"):
        shutil.copy(ROOT / "tools" / name, tools)
    python = tmp_path / "python"  # makes an environment with a pip that logs its packages
    python.write_text(
        "#!/bin/sh\nmkdir -p build/cuda-env/bin\n"
        "printf '#!/bin/sh\\necho \"$@\" >>installed\\n' >build/cuda-env/bin/python\n"
        "chmod +x build/cuda-env/bin/python\n"
    )
    python.chmod(0o755)
    script = tools / "cuda_env.sh"

    def installed() -> list[str]:
        subprocess.run(
            ["bash", script], env={**os.environ, "PYTHON": str(python)}, stderr=subprocess.DEVNULL, check=True
        )
        return (tmp_path / "installed").read_text().splitlines()

    assert len(installed()) == 1
    assert len(installed()) == 1
    script.write_text(script.read_text().replace("nvidia-nccl-cu13==", "nvidia-nccl-cu13==9."))
    assert "nvidia-nccl-cu13==9." in installed()[1]


def test_make_runs_the_programs_of_the_virtual_environment() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    done = subprocess.run(["make", "-n", *targets], cwd=ROOT, capture_output=True, text=True, check=True)
    programs = re.findall(r"\.venv/\S+", done.stdout)
    assert ".venv/bin/python" in programs
    assert all(re.fullmatch(r"\.venv/bin/[a-z-]+", program) for program in programs), programs


def test_a_message_begins_with_the_name_of_the_script() -> None:
    text = (ROOT / "tools" / "setup.sh").read_text()
    functions, _, _ = text.partition("\ncase $goal in\n")
    script = f"{functions}\nmay_install() {{ return 1; }}\nPATH=/nonexistent\ninstall_browser"
    command = ["bash", "-c", script, "tools/setup.sh", "test"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.startswith("setup: no browser found")
