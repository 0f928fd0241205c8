"""A table that agrees with its complete header is read as by inference, and other tables are inferred as before."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw import readers
from busbw.logs.log import Log
from busbw.logs.plain_rows import PlainRows
from busbw.readers.tables import inference
from busbw.readers.tables.events import UserClaims
from busbw.readers.text import text_logs

LOG = (Path(__file__).resolve().parents[3] / "golden" / "logs" / "h200_x4_sweep_c1.txt").read_text().splitlines()
ROW_LINES = [number for number, line in enumerate(LOG) if re.match(r"\s*\d", line)]
CHANGES = (
    (" float ", " half "),
    (" sum ", " none "),
    ("  -1 ", "   0 "),
    ("all_reduce_perf", "all_gather_perf"),
    ("Rank  3 ", "Rank  2 "),
    ("Group  0", "Group  1"),
    ("(us)", "(ms)"),
    (" 0\n", " 1\n"),
    (" 0\n", " N/A\n"),
    (".0", ".9"),
    ("4 ", "8 "),
)


def read(lines: Sequence[str]) -> Log:
    data = [f"{line.rstrip()}\n".encode() for line in lines]
    return readers.collect("log", text_logs.stream_lines(data, "log", UserClaims()))


def read_by_inference(lines: Sequence[str]) -> Log:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inference, "stated_identity", lambda _facts: None)
        return read(lines)


def test_a_table_that_agrees_with_its_header_is_not_inferred(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read_by_inference(LOG)

    def fail(*_arguments: object) -> None:
        raise AssertionError("inferred")

    monkeypatch.setattr(inference, "identify", fail)
    log = read(LOG)
    assert log == expected
    assert isinstance(log.tables[0].rows, PlainRows), "the columns of a short log are kept"


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("is_row", [True, False])
def test_a_changed_line_is_read_alike(change: tuple[str, str], is_row: bool) -> None:
    for number, line in enumerate(LOG):
        changed = f"{line}\n".replace(*change, 1)
        if changed != f"{line}\n" and (number in ROW_LINES[3:6] if is_row else number not in ROW_LINES):
            lines = [*LOG[:number], changed, *LOG[number + 1 :]]
            assert read(lines) == read_by_inference(lines)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_digits_are_read_alike(data: st.DataObject) -> None:
    lines = list(LOG)
    for _ in range(data.draw(st.integers(1, 3))):
        number = data.draw(st.integers(0, len(lines) - 1))
        digits = [match.start() for match in re.finditer(r"\d", lines[number])]
        if digits:
            position = data.draw(st.sampled_from(digits))
            digit = data.draw(st.sampled_from("0123456789"))
            lines[number] = lines[number][:position] + digit + lines[number][position + 1 :]
    assert read(lines) == read_by_inference(lines)


def test_small_sizes_do_not_show_the_factor_but_their_counts_exclude_collectives_with_shares() -> None:
    lines = [line for line in LOG[: ROW_LINES[8]] if "Collective test starting" not in line]
    log = read(lines)
    assert len(log.rows) == 8
    assert {(row.collective, row.ranks) for row in log.rows} == {("all_reduce", 4)}
    without_devices = read([line for line in lines if " Rank " not in line])
    assert {row.collective for row in without_devices.rows} == {None}


def test_counts_of_another_type_do_not_change_the_ranks_of_a_stated_collective() -> None:
    lines = [line.replace(" float ", "  half ") for line in LOG]
    log = read(lines)
    assert {(row.collective, row.ranks) for row in log.rows} == {("all_reduce", 4)}
    (warning,) = log.tables[0].warnings
    assert warning.startswith("the log states all_reduce, but")


def test_a_mixture_has_no_collective_although_its_header_states_one() -> None:
    factors = (1.5, 0.75)
    lines = list(LOG)
    for index, number in enumerate(ROW_LINES):
        words = lines[number].split()
        for algbw, busbw in ((6, 7), (10, 11)):
            words[busbw] = f"{float(words[algbw]) * factors[index % 2]:.2f}"
        lines[number] = "  " + "  ".join(words)
    log = read(lines)
    assert "rows of different runs are mixed" in log.tables[0].warnings[0]
    assert {log.tables[0].collective_of(row) for row in log.rows} == {None}
