"""A gap that overlaps with the previous operation hides the time of that operation."""

import json

import pytest

from ..programs import Programs, read_records

GAP_NS = 60_000_000


@pytest.mark.parametrize(("is_overlapped", "min_ms", "max_ms"), [(0, 120, 1000), (1, 60, 115)])
def test_an_overlapped_gap_hides_the_operation_before(
    programs: Programs, is_overlapped: int, min_ms: float, max_ms: float
) -> None:
    """Rank 0 waits for rank 1 in the first operation, and computes as long before the second.

    Waits never end early, so the lower bounds are exact. The fastest of several steps is compared with the upper one.
    """
    operation = [0, "all_reduce", "float", "sum", 4, -1, 0]
    program = {
        "format": "busbw-replay 1",
        "name": "overlap",
        "ranks": 2,
        "communicators": [[0, 1]],
        "operations": [
            [[*operation, 0, 0, 0], [*operation, GAP_NS, 0, is_overlapped]],
            [[*operation, GAP_NS, 0, 0], [*operation, 0, 0, 0]],
        ],
    }
    (programs.folder / "program.json").write_text(json.dumps(program))
    arguments = ["--backend", "host", "-t", 2, "-n", 8, "-w", 1, "--records", "out.jsonl"]
    finished = programs.run("busbw-engine", "replay", "program.json", *arguments)
    assert finished.code == 0, finished.stderr
    (row,) = [line for line in read_records(programs.folder / "out.jsonl") if line["kind"] == "row"]
    times_ms = [max(times) / 1e3 for times in zip(*row["samples_us"], strict=True)]
    assert min(times_ms) >= min_ms
    assert min(times_ms) <= max_ms


def test_an_invalid_overlap_flag_is_named(programs: Programs) -> None:
    operation = [0, "all_reduce", "float", "sum", 4, -1, 0, 0, 0, 2]
    program = {
        "format": "busbw-replay 1",
        "name": "overlap",
        "ranks": 2,
        "communicators": [[0, 1]],
        "operations": [[operation], [operation]],
    }
    (programs.folder / "program.json").write_text(json.dumps(program))
    finished = programs.run("busbw-engine", "replay", "program.json", "--backend", "host", "-t", 2)
    assert finished.code == 2
    assert "overlap flag" in finished.stderr
