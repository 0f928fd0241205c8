"""The sentence about correct data, from records."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from busbw import records
from busbw.cli.outcome import correctness
from busbw.records import CheckRecord, EndRecord, HeaderRecord, RowRecord, RunRecords

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "records.jsonl"


def golden(kind: type) -> Any:
    return next(record for record in records.read(GOLDEN) if isinstance(record, kind))


def run_of(*checks: tuple[str, int | None], exit_code: int | None = 0, reason: str = "completed") -> RunRecords:
    """A run with a measurement per check, each of its own size."""
    lines: list[Any] = [golden(HeaderRecord)]
    for number, (state, wrong) in enumerate(checks):
        check = CheckRecord(
            state=state,  # type: ignore[arg-type]
            wrong_elements=wrong,
            wrong_ranks=1 if wrong else None,
            policy="exact" if state == "checked" else None,
            first_wrong=[],
        )
        row = golden(RowRecord)
        lines.append(msgspec.structs.replace(row, requested_bytes=8 << number, size_bytes=8 << number, check=check))
    if exit_code is not None:
        lines.append(msgspec.structs.replace(golden(EndRecord), exit_code=exit_code, reason=reason))
    return RunRecords(lines)


RIGHT, UNCHECKED, UNDEFINED = ("checked", 0), ("not_checked", None), ("not_applicable", None)


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (run_of(RIGHT, RIGHT), "Data: correct: all 2 rows right, every bit."),
        (run_of(RIGHT), "Data: correct: all 1 row right, every bit."),
        (run_of(), "Data: nothing was measured."),
        (run_of(UNCHECKED, UNCHECKED), "Data: not checked: 2 rows measured without a data check (-c 0)."),
        (
            run_of(RIGHT, UNDEFINED),
            "Data: correct: all 1 checked row of 2 right, every bit. 1 measurement without a defined result (N/A).",
        ),
        (
            run_of(RIGHT, UNCHECKED),
            "Data: correct: all 1 checked row of 2 right, every bit. 1 measurement not checked.",
        ),
        (
            run_of(RIGHT, exit_code=130, reason="interrupted"),
            "Data: the run ended early (interrupted); until then correct: all 1 row right, every bit.",
        ),
        (run_of(RIGHT, exit_code=None), "Data: the run was killed; until then correct: all 1 row right, every bit."),
        (run_of(RIGHT, exit_code=5), "Data: correct: all 1 row right, every bit."),
    ],
)
def test_the_sentence(run: RunRecords, sentence: str) -> None:
    assert correctness.correctness_sentence(run) == sentence


def test_a_process_that_was_lost_after_a_complete_record_is_mentioned() -> None:
    text = correctness.correctness_sentence(run_of(RIGHT, exit_code=0), exit_code=4, ending_words="lost a process")
    assert text == "Data: the run lost a process after its last row; correct: all 1 row right, every bit."


def test_wrong_rows_are_named_up_to_three() -> None:
    text = correctness.correctness_sentence(run_of(RIGHT, *[("checked", 7)] * 5, exit_code=1))
    assert text.startswith("Data: WRONG DATA in 5 of 6 rows: 16 B ")
    assert text.count("7 elements") == 3
    assert text.endswith("; and 2 more.")


def test_a_row_is_both_placements() -> None:
    row = golden(RowRecord)
    lines = [golden(HeaderRecord), row, msgspec.structs.replace(row, placement="in_place"), golden(EndRecord)]
    assert "all 1 row right" in correctness.correctness_sentence(RunRecords(lines))
