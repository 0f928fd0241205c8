"""Our own records, of any length."""

import json
from pathlib import Path

import pytest
from conftest import GOLDEN_RECORD

from busbw.errors import UsageError
from busbw.readers import TableChunk, read, stream


def many_records(path: Path, cycles: int) -> Path:
    """The golden run with its first row repeated over and over, in both placements."""
    header, *lines, end = GOLDEN_RECORD.read_text().splitlines()
    row = next(json.loads(line) for line in lines if json.loads(line)["kind"] == "row")
    with path.open("w") as out:
        out.write(header + "\n")
        for cycle in range(cycles):
            for placement in ("out_of_place", "in_place"):
                out.write(json.dumps({**row, "cycle": cycle, "placement": placement}) + "\n")
        out.write(end + "\n")
    return path


def test_records_of_any_length_are_read_in_chunks(tmp_path: Path) -> None:
    path = many_records(tmp_path / "long.jsonl", cycles=2500)
    events = [event for event in stream(path) if isinstance(event, TableChunk)]
    assert len(events) > 1
    assert [event.is_last for event in events] == [False] * (len(events) - 1) + [True]
    (table,) = read(path).tables
    assert [(row.line, row.cycle, len(row.figures)) for row in table.rows] == [
        (2 + 2 * cycle, cycle, 2) for cycle in range(2500)
    ]
    assert table.complete
    assert table.claimed_average_busbw_gbps is not None


@pytest.mark.parametrize("kept_lines", [1, 3])
def test_record_without_end_may_be_of_a_run_that_continues(tmp_path: Path, kept_lines: int) -> None:
    path = tmp_path / "open.jsonl"
    path.write_text("".join(GOLDEN_RECORD.read_text().splitlines(keepends=True)[:kept_lines]))
    (table,) = read(path).tables
    assert table.early_end_text == "the log has no end: the run was killed or is still running"


@pytest.mark.parametrize(
    ("reason", "is_complete"),
    [
        ("completed", True),
        ("wrong data", True),
        ("slower than demanded", True),
        ("interrupted", False),
        ("rank lost or timed out", False),
        ("a reason of a later version", False),
    ],
)
def test_a_run_that_ended_early_is_not_complete(tmp_path: Path, reason: str, is_complete: bool) -> None:
    lines = [json.loads(line) for line in GOLDEN_RECORD.read_text().splitlines()]
    assert lines[-1]["kind"] == "end"
    lines[-1] |= {"reason": reason, "message": "rank 3 was lost"}
    path = tmp_path / "ended.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (table,) = read(path).tables
    assert table.complete is is_complete
    assert ("rank 3 was lost" in table.early_end_text) is not is_complete


def test_long_broken_records_are_refused_after_their_valid_chunks(tmp_path: Path) -> None:
    path = many_records(tmp_path / "long.jsonl", cycles=2500)
    path.write_text(path.read_text().replace('"cycle": 2400', '"circle": 2400'))
    with pytest.raises(UsageError, match=rf"long.jsonl:{2 + 2 * 2400}: .*cycle"):
        read(path)


def test_nccl_is_named_as_in_other_logs(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in GOLDEN_RECORD.read_text().splitlines()]
    assert read(GOLDEN_RECORD).tables[0].library == "host 0.1.0"
    lines[0] |= {"backend": "nccl", "backend_version": "22809"}
    lines[0]["machine"]["nccl_version"] = "2.28.9"
    path = tmp_path / "gpu.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read(path).tables[0].library == "NCCL 2.28.9"


def test_the_library_name_is_not_a_warning(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in GOLDEN_RECORD.read_text().splitlines()]
    lines[0]["notes"] = ["Library: version 2.28.9, libnccl.so.2, SHA-256 1c86", "-i 1M is not used: -f 2"]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    noted, *_ = read(path).tables[0].warnings
    assert noted == "-i 1M is not used: -f 2"
