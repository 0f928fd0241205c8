"""Tests of `busbw topo` on a machine with GPUs, compared with the output of nvidia-smi."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .machine import HANG_GUARD_S, Machine


def said(command: list[str | Path], text: str | None = None) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=HANG_GUARD_S, check=False)
    assert done.returncode == 0, done
    return done.stdout


def nvidia_smi(*arguments: str) -> str:
    found = shutil.which("nvidia-smi")
    if found is None:
        pytest.skip("this takes nvidia-smi")
    return said([found, *arguments])


def topology(machine: Machine, *arguments: str, text: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said([machine.programs / "busbw", "topo", "--json", *arguments], text))
    return found


def between_gpus(found: dict[str, Any]) -> dict[tuple[str, str], str]:
    labels = {gpu["label"] for gpu in found["gpus"]}
    return {
        (path["of"], path["to"]): path["connection"] for path in found["paths"] if {path["of"], path["to"]} <= labels
    }


def test_the_matrix_is_the_driver_s(gpus: Machine) -> None:
    """Compares with `nvidia-smi topo -m` on the same machine. Neither depends on CUDA_VISIBLE_DEVICES."""
    ours, theirs = topology(gpus), topology(gpus, "-", text=nvidia_smi("topo", "-m"))
    assert len(ours["gpus"]) == len(nvidia_smi("-L").splitlines())
    count = len(ours["gpus"])
    assert len(between_gpus(ours)) == count * (count - 1) // 2
    assert between_gpus(ours) == between_gpus(theirs)
    for name in ("label", "cpu_affinity", "numa_affinity"):
        assert [gpu[name] for gpu in ours["gpus"]] == [gpu[name] for gpu in theirs["gpus"]], name


def test_gpus_and_driver_are_the_driver_s(gpus: Machine) -> None:
    fields = ["name", "pci.bus_id", "memory.total", "driver_version", "pcie.link.gen.max", "pcie.link.width.max"]
    query = nvidia_smi(f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
    found = topology(gpus)
    for gpu, line in zip(found["gpus"], query.splitlines(), strict=True):
        name, bus_id, memory_mib, driver, generation, width = (word.strip() for word in line.split(","))
        assert (gpu["name"], found["driver"]["version"]) == (name, driver)
        assert gpu["bus_id"] == bus_id[4:].lower()  # the driver's domains have eight digits, the kernel's four
        assert gpu["memory_bytes"] // (1 << 20) == int(memory_mib)
        assert [str(gpu["pcie"][each]) for each in ("max_generation", "max_width")] == [generation, width]


def test_links_add_up(several: Machine, gpus: Machine) -> None:
    """Each GPU's number of NVLinks equals its links to switches and GPUs, and the matrix shows no more."""
    found = topology(gpus)
    for gpu in found["gpus"]:
        links = gpu["nvlinks"]
        if links is None or links["to_switch"] is None:
            continue
        assert links["active"] == links["to_switch"] + sum(links["to_gpus"].values())
        for pair, connection in between_gpus(found).items():
            if gpu["label"] in pair and connection.startswith("NV"):
                assert int(connection[2:]) <= links["active"]
