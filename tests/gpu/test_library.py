"""Tests that the measured library and driver are recorded, and that NCCL's state is printed if ranks hang."""

import hashlib
import re
from pathlib import Path

import pytest

from .machine import Machine

HAS_RAS = (2, 24, 0)


def test_library_and_driver_are_on_record(gpus: Machine) -> None:
    finished = gpus.run("all_reduce", *gpus.ranks("g"), "-b", 8, "-e", 8, "-n", 1)
    assert finished.code == 0, finished
    first_line = finished.stdout.splitlines()[0]
    assert re.search(r" nccl-headers=2\d{4} nccl-library=\d+ ", first_line), first_line

    (run,) = finished.of_kind("run")
    (path,) = {rank["library"]["path"] for rank in run["ranks"]}
    (sha256,) = {rank["library"]["sha256"] for rank in run["ranks"]}
    assert sha256 == hashlib.sha256(Path(path).read_bytes()).hexdigest()
    assert f", {path}, SHA-256 {sha256}\n" in finished.stdout

    facts = finished.facts()
    for fact in ("cuda_driver", "cuda_runtime", "nccl_headers", "nccl_library_sha256"):
        assert facts[fact], facts
    assert re.fullmatch(r"\d+(\.\d+)+", facts["driver"])


def test_a_preloaded_library_is_the_one(gpus: Machine) -> None:
    found = gpus.run("all_reduce", "-t", 1, "-b", 8, "-e", 8)
    (run,) = found.of_kind("run")
    library = run["ranks"][0]["library"]
    preloaded = gpus.run(
        *("all_reduce", "-t", 1, "-b", 8, "-e", 8),
        environment={"LD_PRELOAD": library["path"], "BUSBW_NCCL_LIBRARY": ""},
    )
    assert preloaded.code == 0, preloaded
    (run,) = preloaded.of_kind("run")
    assert run["ranks"][0]["library"] == library


@pytest.mark.alone  # another job on this host could use the port of the RAS service
@pytest.mark.parametrize("way", ["g", "t", "processes"])
def test_ranks_that_hang_are_explained(several: Machine, gpus: Machine, way: str) -> None:
    hang = ["--fault", "hang:rank=1,phase=timing"]
    finished = several.start("all_reduce", *several.ranks(way), "-b", "1M", "-e", "1M", "-T", 4, *hang).finish(60)
    assert finished.code == 4, finished
    finished.sentence()
    (end,) = finished.of_kind("end")
    details = end["details"]
    assert re.match(r"last issued: operation \d+ \(all_reduce, 1048576 bytes\) by rank ", details[0]), details
    assert f"# {details[0]}\n" in finished.stdout
    assert any("NCCL's asynchronous state of rank 0" in detail for detail in details), details
    version = tuple(map(int, finished.facts()["nccl_version"].split(".")))
    if version >= HAS_RAS:
        assert any(detail.startswith("NCCL's RAS service: ") for detail in details), details


@pytest.mark.parametrize(
    ("visible", "said"),
    [("", "hides all GPUs"), ("-1", "hides all GPUs"), ("99", "shows no GPU"), ("GPU-nonsense", "shows no GPU")],
)
def test_a_variable_that_hides_the_gpus(gpus: Machine, visible: str, said: str) -> None:
    finished = gpus.run("all_reduce", environment={"CUDA_VISIBLE_DEVICES": visible})
    assert finished.code == 3, finished
    assert said in finished.sentence()
    assert "nvidia-smi -L" in finished.sentence()


def test_too_little_memory_names_the_gpu(gpus: Machine) -> None:
    finished = gpus.run("all_reduce", *gpus.ranks("g"), "-b", "1024G", "-e", "1024G")
    assert finished.code == 3, finished
    assert re.search(r"counted by GPU \d+ \([0-9a-f:]+\), which has the least free", finished.sentence())
    assert "use sizes up to" in finished.sentence()
