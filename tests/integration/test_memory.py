"""Is the memory of a run planned before it starts?"""

import re

import pytest

from .programs import OUTPUTS, Programs, document_of, records_of, wait_for_text


@pytest.mark.parametrize(
    ("sizes", "asked"),
    [
        (["-b", "65536G", "-e", "65536G"], "64 TiB"),
        (["--sizes", "1K,65536G"], "64 TiB"),
        (["-b", "4294967296G", "-e", "4294967296G"], "4 EiB"),
    ],
)
def test_oversized_buffers_are_refused(programs: Programs, sizes: list[object], asked: str) -> None:
    finished = programs.run("all_reduce", "-t", 4, *sizes, *OUTPUTS)
    assert (finished.code, finished.stdout) == (3, "")
    sentence = finished.sentence()
    assert f"2 buffers of {asked} for each of 4 ranks need " in sentence
    assert re.search(r"of \S+ [KMGT]?i?B free memory, \S+ [KMGT]?i?B may be used: use sizes up to ", sentence)
    assert list(programs.folder.iterdir()) == []


def test_samples_belong_to_the_plan(programs: Programs) -> None:
    finished = programs.run("all_reduce", "-t", 1000, "-b", 8, "-e", 8, "-n", 2_000_000_000, *OUTPUTS)
    assert (finished.code, finished.stdout) == (3, "")
    assert "-n 2000000000 (--iters): the samples of 1000 ranks need " in finished.sentence()
    assert list(programs.folder.iterdir()) == []


def test_a_sweep_that_does_not_fit_is_reduced(programs: Programs) -> None:
    """The rank hangs before it touches its memory: the plan is all that this test wants."""
    arguments = ["-t", 1, "-b", 8, "-e", "65536G", "-f", 2, *OUTPUTS]
    running = programs.start("all_reduce", *arguments, "--fault", "hang:rank=0,phase=warmup")
    wait_for_text(running.records_path())
    running.interrupt_group()
    finished = running.finish()
    found = re.search(r"^# Reducing maxBytes to (\d+) due to memory limitation$", finished.stdout, flags=re.MULTILINE)
    assert found
    assert re.search(r"^# 2 buffers of 64 TiB for each of 1 ranks need ", finished.stdout, flags=re.MULTILINE)
    # As in nccl-tests the settings are those that were asked for.
    asked = 65536 << 30
    assert f" maxBytes {asked} step: 2(factor) " in finished.stdout
    assert document_of(programs)["config"]["maximum_bytes"] == asked
    header = records_of(programs)[0]
    assert header["settings"]["max_bytes"] == int(found.group(1))
    assert any("Reducing maxBytes" in note for note in header["notes"])
