"""`busbw topo` as a user calls it."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BUSBW, ROOT
from saved_matrices import H200_X4, V100_X2_WITHOUT_TABS, WITH_NICS

from busbw.cli.main import main


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "topo.txt"
    path.write_text(WITH_NICS)
    return path


def test_this_machine_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topo"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("this machine: ")
    assert "GPU" in out


def test_this_machine_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topo", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["source"] == "this machine"
    assert found["host"]["cpus"]
    assert found["gpus"] is not None or found["notes"]


def test_a_saved_matrix(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topo", str(saved)]) == 0
    out = capsys.readouterr().out
    assert "GPU0  X     NV4   PXB   SYS" in out
    assert "\x1b" not in out


def test_standard_input_and_a_pipe() -> None:
    done = subprocess.run([*BUSBW, "topo", "-", "--json"], input=H200_X4, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["source"] == "standard input"
    assert done.stderr == ""


def test_a_pipe_gets_every_column(tmp_path: Path) -> None:
    cpus = ",".join(f"{number}-{number + 1}" for number in range(0, 90, 3))
    (tmp_path / "a.txt").write_text(H200_X4.replace("0-63", cpus))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [*BUSBW, "topo", str(tmp_path / "a.txt")]
    whole = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert cpus in whole
    narrow = subprocess.run(command, env={**environment, "COLUMNS": "60"}, capture_output=True, text=True, check=True)
    assert cpus not in narrow.stdout
    assert "no room for: CPUs" in narrow.stdout


def test_several_matrices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "both.txt"
    path.write_text(f"{H200_X4}\n{V100_X2_WITHOUT_TABS}")
    assert main(["topo", str(path), "--json"]) == 0
    assert [len(json.loads(line)["gpus"]) for line in capsys.readouterr().out.splitlines()] == [4, 2]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["/nowhere/topo.txt"], 2, "cannot read /nowhere/topo.txt"),
        (["."], 2, "cannot read .: Is a directory"),
        ([str(ROOT / "README.md")], 2, "has no matrix of `nvidia-smi topo -m`"),
        (["SAVED", "--virtual"], 2, "--virtual is only for this machine"),
    ],
)
def test_an_error_is_one_sentence(
    saved: Path, words: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topo", *(str(saved) if word == "SAVED" else word for word in words)]) == code
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler here to make a stand-in for NVIDIA's library")
def test_the_real_package_with_a_library_of_two_gpus(tmp_path: Path) -> None:
    """The package's own structures, strings and errors, through a process as users start it."""
    source = Path(__file__).with_name("fake_nvml.c")
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", library, source], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([*BUSBW, "topo", "--json"], env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    first, second = found["gpus"]
    assert found["driver"] == {"version": "580.95.05", "cuda_version": "13.0"}
    assert (first["name"], second["name"]) == ("NVIDIA Test 0", "NVIDIA Test 1")
    assert (first["bus_id"], second["bus_id"]) == ("0000:a1:00.0", "0000:a2:00.0")
    assert (first["memory_bytes"], second["memory_bytes"]) == (80 * 2**30, 81 * 2**30)
    assert (first["cpu_affinity"], second["cpu_affinity"]) == ("63", "63-65")
    assert (first["numa_affinity"], second["numa_affinity"]) == ("0", "1")
    assert (first["mig_mode"], second["mig_mode"]) == ("disabled", "enabled")
    assert first["pcie"] == {"generation": 1, "width": 8, "max_generation": 5, "max_width": 16, "max_gbps": 63.02}
    assert (first["nvlinks"]["active"], second["nvlinks"]["active"]) == (18, 17)
    assert first["nvlinks"]["version"] == "4.0"
    assert (first["nvlinks"]["link_gbps"], first["nvlinks"]["line_gbps"]) == (25.0, 26.562)
    assert (first["nvlinks"]["to_switch"], first["nvlinks"]["to_gpus"]) == (18, {})
    assert first["gpu_numa_id"] is None
    (pair,) = (path for path in found["paths"] if path["to"] == "GPU1")
    assert (pair["connection"], pair["pcie"]) == ("NV17", "SYS")
    assert pair["peer_access"] == {"read": "ok", "write": "ok", "atomics": "GPU not supported", "nvlink": "ok"}
    assert found["notes"] == ["nvmlDeviceGetNumaNodeId failed 2 times: Function Not Found"]
