"""Terminal output: it fits the width, uses colors only if they are allowed, and shows the log's facts."""

import io
import re
import sys
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from polling import HANG_GUARD_S, wait_until
from rich.cells import cell_len
from rich.text import Text
from sample_logs import AWKWARD, STATS, WRONG, figure, log, row, table

from busbw.expect import ExpectedRange
from busbw.logs.log import Log, Rank, Row, Table
from busbw.records import LateRankRecord, StatsRecord
from busbw.terminal import Cell, Column, ExpectationColumns, activity, console, log_lines, table_lines

SIZES = [8 << step for step in range(28)]
SWEEP = log(
    table(
        rows=tuple(
            row(
                size,
                number,
                figures={
                    "out_of_place": figure(10 + size / 1e4, busbw_gbps=size / (10 + size / 1e4) / 1e3, stats=STATS),
                    "in_place": figure(9 + size / 1e4, busbw_gbps=size / (9 + size / 1e4) / 1e3, stats=STATS),
                },
            )
            for number, size in enumerate(SIZES, start=1)
        )
    )
)


def expects(low: float) -> ExpectationColumns:
    return ExpectationColumns(lambda _row: ExpectedRange(low=low, typical=2 * low, high=3 * low))


def text_of(sample: Log, width: int = 80, *, expected: ExpectationColumns | None = None, draw: bool = True) -> str:
    def of_table(_table: Table) -> ExpectationColumns:
        assert expected
        return expected

    return "\n".join(line.plain for line in log_lines(sample, width=width, expected=expected and of_table, draw=draw))


def row_lines(sample: Log, width: int) -> list[str]:
    text = text_of(sample, width, draw=False)
    return [line for line in text.splitlines() if re.match(r" *\d[\d.]* (?:[KMG]i)?B ", line)]


# ---- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 100, 120, 140, 200])
def test_a_sweep_fits(width: int) -> None:
    text = text_of(SWEEP, width, expected=expects(1))
    wide = [line for line in text.splitlines() if cell_len(line) > width]
    assert wide == []


@pytest.mark.parametrize("width", [60, 80, 140, 200])
def test_every_row_is_shown_at_any_width(width: int) -> None:
    assert len(row_lines(SWEEP, width)) == len(SIZES)


def test_wider_terminals_show_more() -> None:
    header = {
        width: next(line for line in text_of(SWEEP, width).splitlines() if "time us" in line)
        for width in (60, 100, 140)
    }
    assert [header[60].count(name) for name in ("busbw", "algbw", "p99 us")] == [2, 0, 0]
    assert [header[100].count(name) for name in ("busbw", "algbw", "p99 us")] == [2, 2, 2]
    assert header[140].count("cv %") == 2


def test_the_variation_names_its_clock() -> None:
    """Samples by the device's clock vary otherwise than the times of the row, which include launches."""
    from_device = replace(
        SWEEP,
        tables=tuple(
            replace(
                table,
                rows=tuple(
                    replace(
                        row,
                        figures={
                            name: replace(figure, sample_clock="gated_device_events")
                            for name, figure in row.figures.items()
                        },
                    )
                    for row in table.rows
                ),
            )
            for table in SWEEP.tables
        ),
    )
    header = next(line for line in text_of(from_device, 160).splitlines() if "time us" in line)
    assert header.count("device cv %") == header.count("cv %") == 2


TEXTS = st.text(max_size=20)


@given(
    st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=5),
    st.integers(min_value=30, max_value=120),
    st.booleans(),
)
def test_any_text_fits_if_columns_may_be_dropped_or_cut(
    rows: list[tuple[str, str, str]], width: int, is_number: bool
) -> None:
    cells = [[Cell("".join(filter(str.isprintable, cell))) for cell in column] for column in zip(*rows, strict=True)]
    columns = [
        Column("first", cells[0], is_number=False),
        Column("second", cells[1], is_number=is_number, weight=2),
        Column("third", cells[2], is_number=is_number, weight=1),
    ]
    made = table_lines(columns, width)
    assert all(line.cell_len <= width for line in made)
    assert len(made) == 1 + len(rows) or not any(line.plain for line in made)


def test_heavier_columns_stay_longer() -> None:
    columns = [Column(name, [Cell("x" * 10)], weight=weight) for name, weight in (("a", 0), ("b", 2), ("c", 1))]
    assert [table_lines(columns, width)[0].plain.split() for width in (40, 25, 12)] == [
        ["a", "b", "c"],
        ["a", "b"],
        ["a"],
    ]


def test_a_long_text_is_wrapped_and_not_cut() -> None:
    words = "a reason of many words that exceeds the width"
    columns = [
        Column("size", [Cell("8 B"), Cell("1 KiB")]),
        Column("because", [Cell(words), Cell("x" * 30)], is_number=False),
    ]
    lines = [line.plain for line in table_lines(columns, 30)]
    assert max(map(len, lines)) <= 30
    assert " ".join(line[7:].strip() for line in lines[1:-2]) == words
    assert lines[-2:] == [f"1 KiB  {'x' * 23}", " " * 7 + "x" * 7]


def test_an_empty_column_is_omitted() -> None:
    columns = [Column("a", [Cell("1")]), Column("b", [Cell("")])]
    assert table_lines(columns, 80)[0].plain.split() == ["a"]


# ---- what is said ----------------------------------------------------------------------------------------------------


def test_the_heading() -> None:
    text = text_of(log())
    assert text.splitlines()[0] == "all_reduce float sum"
    assert "4 ranks on 2 hosts (node17.acme.example, node18.acme.example), NVIDIA H200" in text
    assert "NCCL 2.28.9" in text


@pytest.mark.parametrize(
    ("sample", "pieces"),
    [
        (table(), ["data: right in all 4 measurements"]),
        (table(rows=(row(figures={"in_place": WRONG}),)), ["data: WRONG in 1 of 1", "8 B float in place", "rank 1"]),
        (table(rows=(row(figures={"in_place": figure(check="not_checked")}),)), ["data: not checked"]),
        (
            table(rows=(row(figures={"a": figure(), "b": figure(check="not_checked")}),)),
            ["right in the 1 of 2 measurements that were checked"],
        ),
        (table(complete=False), ["right in all", "no end"]),
        (table(complete=False, end_reason="interrupted"), ["ended early (interrupted)"]),
        (table(complete=None), ["right in all 4 measurements"]),
        (table(rows=()), ["no row"]),
    ],
)
def test_the_verdict_on_the_data(sample: Table, pieces: list[str]) -> None:
    said = next(line for line in text_of(log(sample), 200).splitlines() if line.startswith("data:"))
    assert all(piece in said for piece in pieces), said


def test_wrong_and_missing_are_distinguished() -> None:
    kinds = {"checked": "0", "not_applicable": "N/A", "not_checked": "-", "unstated": ""}
    rows = tuple(
        row(8 << number, figures={"in_place": figure(check=kind, wrong_elements=0 if kind == "checked" else None)})
        for number, kind in enumerate(kinds)
    )
    last = [line.split()[-1] for line in row_lines(log(table(rows=rows)), 80)]
    assert last == ["0", "N/A", "-", "0.75"]


def test_the_expected_column_and_its_colors() -> None:
    rows = (
        row(8, figures={"in_place": figure(busbw_gbps=5.0)}),
        row(16, figures={"in_place": figure(busbw_gbps=0.33)}),
    )
    made = list(log_lines(log(table(rows=rows)), width=80, expected=lambda _: expects(1), draw=False))
    first, second = (line for line in made if "1.00-3.00" in line.plain)
    assert styles_at(first, "5.00") == {"green"}
    assert styles_at(second, "0.33") == {"red"}


def styles_at(line: Text, text: str) -> set[str]:
    place = line.plain.index(text, 8)
    return {str(span.style) for span in line.spans if span.start <= place < span.end}


def test_an_assumption_colors_nothing() -> None:
    rows = tuple(row(size, figures={"in_place": figure(busbw_gbps=5.0)}) for size in (8, 16))
    doubtful = ExpectationColumns(
        expects(1).busbw_gbps, lambda one: "over NICs that nobody states" if one.size_bytes == 8 else ""
    )
    made = list(log_lines(log(table(rows=rows)), width=80, expected=lambda _: doubtful, draw=False))
    first, second = (line for line in made if "1.00-3.00" in line.plain)
    assert styles_at(first, "5.00") == set()
    assert styles_at(second, "5.00") == {"green"}
    assert [line.plain for line in made].count("expected: over NICs that nobody states") == 1


def test_no_expectation_no_column() -> None:
    assert "expected" not in text_of(log())


def test_noise_is_yellow() -> None:
    noisy = StatsRecord(**{name: getattr(STATS, name) for name in STATS.__struct_fields__})
    made = list(log_lines(log(table(rows=(row(figures={"in_place": figure(stats=noisy)}),))), width=100, draw=False))
    line = next(line for line in made if "31.25" in line.plain)
    assert styles_at(line, "31.25") == {"yellow"}


def test_curves_of_busbw_and_time() -> None:
    for width in (80, 140):
        text = text_of(SWEEP, width, expected=expects(50))
        assert "busbw (GB/s) over size" in text
        assert "time (us) over size" in text
        assert "expected" in text
    assert any("busbw (GB/s)" in line and "time (us)" in line for line in text_of(SWEEP, 140).splitlines())
    assert "over size" not in text_of(SWEEP, draw=False)


def test_warnings_and_refused_rows() -> None:
    text = text_of(AWKWARD, 120)
    assert "warning: 8 B out of place: the times scatter by 31 %" in text
    assert "left out: line 9: 3 columns are no row" in text
    assert "warning: two logs are mixed" in text


def test_groups_are_shown_with_their_hosts() -> None:
    ranks = tuple(Rank(rank=rank, group=rank // 8, host=f"n{rank // 2}") for rank in range(24))
    lines_ = text_of(log(table(ranks=24, rank_list=ranks)), draw=False).splitlines()
    assert lines_[1].startswith("ran: 24 ranks on 12 hosts (n0, n1, n2 and 9 more)")
    assert lines_[2:5] == [
        "group 0: 8 ranks on n0, n1, n2 and 1 more",
        "group 1: 8 ranks on n4, n5, n6 and 1 more",
        "group 2: 8 ranks on n8, n9, n10 and 1 more",
    ]
    assert "group 0" not in text_of(log())


def test_many_groups_are_counted() -> None:
    ranks = tuple(Rank(rank=rank, group=rank, host="n0") for rank in range(20))
    text = text_of(log(table(ranks=20, rank_list=ranks)), draw=False)
    assert "group 15: 1 rank on n0" in text
    assert "and 4 more groups" in text


def test_a_late_rank_is_named_once() -> None:
    def late_row(size_bytes: int, late_us: float) -> Row:
        message = f"rank 2 on n1 starts each iteration {late_us:.0f} us after all others"
        late = LateRankRecord(kind="late_start", rank=2, host="n1", late_us=late_us, message=message)
        return row(size_bytes, figures={"out_of_place": figure(late_ranks=(late,), warnings=(message,))})

    text = " ".join(text_of(log(table(rows=(late_row(8, 3000), late_row(16, 3002)))), draw=False).split())
    assert "late: rank 2 on n1 starts each iteration 3001 us after all others, at 2 of 2 sizes" in text
    assert "warning:" not in text


def test_long_sentences_are_wrapped() -> None:
    sentence = "the ranks of this run came late, and nobody knows why; " * 4
    lines_ = text_of(log(warnings=(sentence,)), 60, draw=False).splitlines()
    assert max(map(len, lines_)) <= 60
    assert sentence.split() == [word for line in lines_ for word in line.split()][-len(sentence.split()) :]


def test_many_sentences_are_counted() -> None:
    assert "and 92 more" in text_of(log(warnings=tuple(f"sentence {number}" for number in range(100))))


def test_no_escape_of_a_log_reaches_the_terminal() -> None:
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text_of(AWKWARD))


def test_one_table_of_several() -> None:
    two = log(table(), table(collective="all_gather", rows=(row(collective="all_gather"),)))
    text = "\n".join(line.plain for line in log_lines(two, width=80, numbers=[2]))
    assert "table 2 of 2" in text
    assert "all_reduce float" not in text


def test_rows_that_differ_in_more_than_size_have_columns_for_it() -> None:
    sample = log(table(rows=tuple(row(8, dtype=dtype, root=root) for dtype in ("half", "int8") for root in (0, 1))))
    header = next(line for line in text_of(sample).splitlines() if "time us" in line)
    assert {"dtype", "root"} <= set(header.split())


# ---- color ----------------------------------------------------------------------------------------------------------


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(stream: io.StringIO) -> str:
    console(stream).print(Text("bad", style="bold red"))
    return stream.getvalue()


def test_color_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in printed(Screen())


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_color_if_it_is_disabled(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    assert printed(Screen()) == "bad\n"


@pytest.mark.parametrize("force", ["", "1"])
def test_no_color_in_a_pipe(monkeypatch: pytest.MonkeyPatch, force: str) -> None:
    monkeypatch.setenv("FORCE_COLOR", force)
    assert printed(io.StringIO()) == "bad\n"


def test_unknown_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Row(line=1, size_bytes=8, figures={})
    assert "unknown collective" in text_of(log(Table(format="x", rows=(bare,))))


def test_a_type_with_control_characters_is_escaped() -> None:
    evil = row(8, dtype="\x1b[31mred\u202e", figures={"out_of_place": WRONG})
    assert all(line.isprintable() for line in text_of(log(table(rows=(evil,))), draw=False).splitlines())


# ---- a command that takes a while -----------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("fails", [False, True])
def test_a_long_activity_is_shown_until_it_ends(monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.modules["busbw.terminal.activity"], "_SHOW_AFTER_S", 0.01)
    shown = re.compile(r"reading job\.log, \d+ s")
    with suppress(ZeroDivisionError), activity("reading job.log"):
        wait_until(lambda: shown.search(screen.getvalue()), "a line")
        if fails:
            _ = 1 / 0
    said = screen.getvalue()
    assert said.endswith("\x1b[2K")  # the line is gone
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h") == 1  # and the cursor back


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_a_short_activity_or_no_terminal_shows_nothing(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    # However long the machine takes over it: with a terminal it is quick, without one it is not.
    monkeypatch.setattr(sys.modules["busbw.terminal.activity"], "_SHOW_AFTER_S", HANG_GUARD_S if stream.isatty() else 0)
    with activity("reading job.log"):
        time.sleep(0.05)
    assert stream.getvalue() == ""


def test_the_p99_of_device_samples_is_not_that_of_the_time() -> None:
    """Beside a time of 16 us with launches, 24 us of the gated device clock is another quantity."""
    device = figure(stats=STATS, device_time_us=7.0, sample_clock="gated_device_events")
    program = figure(stats=STATS, sample_clock="device_events")
    rows = (row(8, figures={"in_place": device}), row(16, 2, figures={"in_place": program}))
    shown = "\n".join(line.plain for line in log_lines(log(table(rows=rows)), width=200, draw=False))
    assert "device p99 us" in shown
    assert shown.count("p99 us") == 2


def test_the_algorithm_has_a_column_if_the_log_states_it() -> None:
    rows = (
        row(8, figures={"in_place": figure(algorithm="ring", protocol="ll128", channels=4)}),
        row(16, 2, figures={"in_place": figure()}),
    )
    shown = "\n".join(line.plain for line in log_lines(log(table(rows=rows)), width=200, draw=False))
    assert "algorithm" in shown
    assert shown.count("ring/ll128 x4") == 1
    unstated = "\n".join(line.plain for line in log_lines(log(table(rows=rows[1:])), width=200, draw=False))
    assert "algorithm" not in unstated


def test_a_terminal_without_a_width_gets_all_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    console().print("1 finding")
    assert capsys.readouterr().out == "1 finding\n"
