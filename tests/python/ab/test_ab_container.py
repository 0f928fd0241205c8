"""Is the engine of an image started with what a side asks for, and are its records found?"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import GOLDEN_RECORD

from busbw import engine
from busbw.ab import Measurement, parse_side
from busbw.ab.container import CONTAINER_VARIABLE, command, runner
from busbw.errors import BusbwError

# Stands for podman: writes down its words, and runs the program where the image would be, with the side's variables.
RUNTIME = """#!/bin/sh
printf '%s\\n' "$@" >> {log}
while [ "$1" != image:1 ]; do
  [ "$1" = -e ] && export "$2"
  shift
done
shift
PATH={programs}:$PATH exec "$@"
"""
PROGRAM = """#!/bin/sh
echo "SEEN=$SEEN" >> {log}
for word; do record=$word; done
cp {record} "$record"
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    log, programs, runtime = tmp_path / "log", tmp_path / "programs", tmp_path / "runtime"
    programs.mkdir()
    (programs / "all_reduce_perf").write_text(PROGRAM.format(log=log, record=GOLDEN_RECORD))
    (programs / "busbw-engine").write_text("#!/bin/sh\n")
    runtime.write_text(RUNTIME.format(log=log, programs=programs))
    for path in (*programs.iterdir(), runtime):
        path.chmod(0o755)
    monkeypatch.setenv("BUSBW_PROGRAMS", str(programs))
    monkeypatch.setenv(CONTAINER_VARIABLE, f"{runtime} run --rm")
    return log


def test_a_block_in_an_image(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "blocks"
    folder.mkdir()
    measurement = Measurement(engine.program("all_reduce_perf"), ("-t", "2"), folder)
    block = measurement.block(
        parse_side("--a", "--image image:1 SEEN=yes --preload /in/image.so -z 1"), "one", "-c", "0"
    )
    assert len(block) > 0
    words = log.read_text().splitlines()
    assert words[:4] == ["run", "--rm", "-v", f"{folder}:{folder}"]
    assert words[4:10] == ["-e", "SEEN=yes", "-e", "LD_PRELOAD=/in/image.so", "image:1", "all_reduce_perf"]
    assert words[10:-1] == ["-t", "2", "-z", "1", "-c", "0", "--records", str(folder / "one.jsonl")]
    assert words[-1] == "SEEN=yes"


def test_a_secret_reaches_the_image_without_a_command_line(log: Path, tmp_path: Path) -> None:
    measurement = Measurement(engine.program("all_reduce_perf"), (), tmp_path)
    measurement.block(parse_side("--a", "--image image:1 SEEN=http://me:hush@h"), "one")
    words = log.read_text().splitlines()
    assert words[4:7] == ["-e", "SEEN", "image:1"]
    assert words[-1] == "SEEN=http://me:hush@h"
    assert [word for word in words if "hush" in word] == words[-1:]


def test_an_image_that_cannot_run_is_reported(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONTAINER_VARIABLE, "/bin/sh -c 'exit 125'")
    measurement = Measurement(engine.program("all_reduce_perf"), (), tmp_path)
    with pytest.raises(BusbwError, match="exit code 125 in the block one"):
        measurement.block(parse_side("--a", "--image image:1"), "one")


def test_the_container_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONTAINER_VARIABLE, raising=False)
    found = {"docker": "/usr/bin/docker"}
    monkeypatch.setattr(shutil, "which", found.get)
    assert runner(has_gpus=True) == ["docker", "run", "--rm", "--network=host", "--ipc=host", "--gpus", "all"]
    found["podman"] = "/usr/bin/podman"
    assert runner(has_gpus=False) == ["podman", "run", "--rm", "--network=host", "--ipc=host"]
    found.clear()
    with pytest.raises(BusbwError, match=rf"--image needs one of podman, docker.*{CONTAINER_VARIABLE}"):
        runner(has_gpus=False)


def test_a_folder_is_mounted_under_its_own_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    words = command(["run"], "image", "sendrecv_perf", Path("here"), [("A", "b c")])
    assert words == ["run", "-v", f"{tmp_path}/here:{tmp_path}/here", "-e", "A=b c", "image", "sendrecv_perf"]


def works(words: list[str]) -> bool:
    try:
        return subprocess.run(words, capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("podman") and shutil.which("buildah") and shutil.which("runc")),
    reason="needs root, podman, buildah and runc",
)
def test_a_real_image(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image of nothing but the engine and the C library, built without pulling anything, and run by podman."""
    context = tmp_path / "context"
    binary = engine.program(engine.ENGINE)
    listed = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=True).stdout
    libraries = [word for line in listed.splitlines() for word in line.split() if word.startswith("/")]
    for path in {str(binary), *libraries}:
        target = context / ("usr/local/bin/busbw-engine" if path == str(binary) else path.lstrip("/"))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    (context / "usr/local/bin/all_reduce_perf").symlink_to("busbw-engine")
    (context / "tmp").mkdir()
    (context / "Containerfile").write_text("FROM scratch\nCOPY . /\nENV PATH=/usr/local/bin\n")
    store = Path(tempfile.mkdtemp(prefix="bb", dir="/tmp"))  # podman takes no long paths
    request.addfinalizer(lambda: shutil.rmtree(store, ignore_errors=True))
    storage = ["--root", str(store / "root"), "--runroot", str(store / "run"), "--storage-driver", "vfs"]
    build = ["buildah", *storage, "bud", "--isolation", "chroot", "-t", "busbw-test", str(context)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
    runs = ["podman", *storage, "--cgroup-manager=cgroupfs", "--runtime=runc", "run", "--rm", "--network=host", *limits]
    if not works([*runs, "busbw-test", "busbw-engine", "--version"]):
        pytest.skip("containers cannot be run here")
    monkeypatch.setenv(CONTAINER_VARIABLE, " ".join(runs))
    folder = tmp_path / "blocks"
    folder.mkdir()
    measurement = Measurement(engine.program("all_reduce_perf"), ("-t", "2", "--sizes", "1K,64K"), folder)
    block = measurement.block(parse_side("--b", "--image busbw-test"), "real")
    assert {point.size_bytes for point in block} == {1024, 65536}
    assert all(figure.wrong_elements == 0 for figure in block.values())
