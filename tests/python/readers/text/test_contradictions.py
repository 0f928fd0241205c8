"""Logs that contradict themselves: cut, mixed, changed, in other units, or of another collective than claimed."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from busbw import readers
from busbw.errors import UsageError
from busbw.judge import judge
from busbw.logs.log import Log
from busbw.readers import UserClaims
from busbw.readers.text.text_logs import stream_lines

GOLDEN = Path(__file__).resolve().parents[3] / "golden"
SEED = (GOLDEN / "seeds" / "000_4bd6902a841c76ab.txt").read_text().splitlines(keepends=True)
TABLE = SEED[81:116]
"""All-reduce on 8 ranks: three lines of header, 31 rows, one of the footer."""
RATES_GBPS = st.floats(0.05, 1.8)


def read(folder: Path, lines: list[str], claims: UserClaims | None = None) -> Log:
    file = folder / "log"
    file.write_text("".join(lines))
    return readers.read(file, claims or UserClaims())


def side(size: int, time_us: float, factor: float) -> str:
    algbw = size / time_us / 1e3
    return f"{time_us:9.2f} {algbw:7.2f} {algbw * factor:7.2f}      0"


def rows(factor: float, sizes: range = range(16, 30), shift: float = 0.0) -> list[str]:
    """An all-reduce's rows at 5 us and 100 GB/s."""
    made = []
    for power in sizes:
        size = 1 << power
        time_us = 5 + shift + size / 1e5
        made.append(
            f"{size:>12} {size // 4:>12}  float  sum  -1 {side(size, time_us, factor)} {side(size, time_us, factor)}\n"
        )
    return made


def test_the_table_is_whole(tmp_path: Path) -> None:
    assert len(read(tmp_path, TABLE).rows) == 31


@pytest.mark.parametrize("column", [0, 5, 6, 7, 9, 10, 11])
@pytest.mark.parametrize("row", [20, 25, 30])
def test_a_changed_digit_is_found(tmp_path: Path, column: int, row: int) -> None:
    """The first digit of a figure, where all of its neighbours contradict it."""
    lines = list(TABLE)
    words = lines[row].split()
    words[column] = str(int(words[column][0]) % 9 + 1) + words[column][1:]
    lines[row] = " ".join(words) + "\n"
    log = read(tmp_path, lines)
    assert [refusal.line for refusal in log.refused] == [row + 1]
    assert log.candidate_rows == 31
    assert len(log.rows) == 30


def test_a_cut_in_the_middle_of_a_row(tmp_path: Path) -> None:
    whole = "".join(TABLE[:20])
    last_begins = whole.rindex("\n", 0, len(whole) - 1) + 1
    for end in range(last_begins + 40, len(whole) - 2):
        log = read(tmp_path, [whole[:end]])
        assert len(log.rows) == 16, whole[last_begins:end]
        assert log.candidate_rows - len(log.rows) in (0, 1)


def test_a_cut_after_the_last_figure_refuses_uncertain_rows(tmp_path: Path) -> None:
    whole = "".join(TABLE[:20]).rstrip("\n")
    assert len(read(tmp_path, [whole]).rows) == 17  # ends in 0: no digit can follow
    doubtful = whole[:-1] + "4"
    log = read(tmp_path, [doubtful])
    assert (len(log.rows), len(log.refused)) == (16, 1)
    assert "cut" in log.refused[0].reason


@pytest.mark.parametrize("hole", ["45.\x016", "45[0].6", "[0].6"])
def test_a_number_with_a_gap_is_refused(tmp_path: Path, hole: str) -> None:
    log = read(tmp_path, [line.replace("45.64", hole) for line in TABLE])
    assert (len(log.rows), len(log.refused)) == (30, 1)
    assert "is not a number" in log.refused[0].reason


@settings(max_examples=60)
@given(st.booleans(), st.integers(2, 9), st.lists(st.tuples(RATES_GBPS, RATES_GBPS), min_size=2, max_size=6))
@example(True, 4, [(0.674, 1.205), (0.764, 0.437), (0.631, 1.056), (0.909, 0.541)])
@example(False, 2, [(0.12412, 0.07502), (0.80314, 0.13699)])
def test_rows_of_few_digits_are_accepted(is_named: bool, ranks: int, rates: list[tuple[float, float]]) -> None:
    """Each figure says the factor to some hundredths only; one factor is within all of them."""
    factor = 2 * (ranks - 1) / ranks
    lines = ["# Collective test starting: all_reduce_perf\n"] * is_named + TABLE[:3]
    for power, (out_of_place, in_place) in enumerate(rates, start=10):
        size = 1 << power
        sides = [side(size, round(size / rate / 1e3, 2), factor) for rate in (out_of_place, in_place)]
        lines.append(f"{size:>12} {size // 4:>12}  float  sum  -1 {sides[0]} {sides[1]}\n")
    log = readers.collect("log", stream_lines([line.encode() for line in lines], "log", UserClaims()))
    assert (log.tables[0].warnings, log.refused) == ((), ())
    assert {row.collective for row in log.rows} <= ({"all_reduce"} if is_named else {"all_reduce", None})
    assert {row.ranks for row in log.rows} <= {ranks, None}
    assert len(log.rows) == len(rates)


def test_two_logs_mixed_in_one_table(tmp_path: Path) -> None:
    """Eight and two ranks, line by line: neither is claimed for the other's rows."""
    eight, two = rows(1.75), rows(1.0, shift=1)
    mixed = [line for pair in zip(eight, two, strict=True) for line in pair]
    log = read(tmp_path, TABLE[:3] + mixed)
    (table,) = log.tables
    assert any("mixed" in warning for warning in table.warnings)
    assert {(row.collective, row.ranks) for row in log.rows} == {(None, None)}


def test_two_logs_mixed_if_most_rows_have_few_digits(tmp_path: Path) -> None:
    """From 8 B on: what small rows have in common with everything is no agreement."""
    several, few = (rows(2 * (ranks - 1) / ranks, sizes=range(3, 18)) for ranks in (64, 4))
    mixed = [line for pair in zip(several, few, strict=True) for line in pair]
    log = read(tmp_path, TABLE[:3] + mixed)
    (table,) = log.tables
    assert any("mixed" in warning for warning in table.warnings)
    assert {row.ranks for row in log.rows} == {None}


def test_tables_of_two_writers_are_kept_apart(tmp_path: Path) -> None:
    eight = [f"[1,0]<stdout>:{line}" for line in TABLE[:3] + rows(1.75)]
    two = [f"[2,0]<stdout>:{line}" for line in TABLE[:3] + rows(1.0, shift=1)]
    log = read(tmp_path, [line for pair in zip(eight, two, strict=True) for line in pair])
    assert [len(table.rows) for table in log.tables] == [14, 14]
    assert {table.ranks for table in log.tables} >= {8}
    assert not log.refused


def test_rows_without_a_tag_are_not_those_of_a_tag(tmp_path: Path) -> None:
    """Also where no-break spaces hide how a line began."""
    tagged = [f"[1,0]<stdout>:{line}".replace(" ", "\u00a0") for line in TABLE[:3] + rows(1.75)]
    log = read(tmp_path, tagged + TABLE[:3] + rows(1.0, shift=1))
    assert [(len(table.rows), table.ranks) for table in log.tables] == [(14, 8), (14, 2)]
    assert not log.refused


def device(pid: int) -> str:
    return f"#  Rank  0 Group  0 Pid  {pid} on  node-{pid} device  0 [0000:0f:00] NVIDIA H200\n"


def test_the_singleton_trap_interleaved(tmp_path: Path) -> None:
    alone = rows(0.0)
    lines = [device(1), device(2), device(3), *TABLE[:3], *(line for line in alone for _ in range(3))]
    log = read(tmp_path, lines)
    (table,) = log.tables
    assert table.ranks == 1
    assert "3 processes report rank 0" in " ".join(table.warnings)
    assert {row.cycle for row in log.rows} == {0}


def test_the_singleton_trap_one_after_the_other(tmp_path: Path) -> None:
    head = "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20\n"
    lines = [
        line for pid in (1, 2, 3) for line in [head, device(pid), *TABLE[:3], *rows(0.0), "# Avg bus bandwidth : 0\n"]
    ]
    log = read(tmp_path, lines)
    assert [table.ranks for table in log.tables] == [1, 1, 1]
    assert "3 tables of one rank each" in log.warnings[0]


def test_several_runs_in_one_log(tmp_path: Path) -> None:
    log = read(tmp_path, [*TABLE, "# Avg bus bandwidth    : 65.3513\n", "\n", *TABLE])
    assert [len(table.rows) for table in log.tables] == [31, 31]
    assert not any(table.warnings for table in log.tables)


def test_rows_after_a_footer_are_not_those_of_its_table(tmp_path: Path) -> None:
    log = read(tmp_path, [*TABLE, "# Avg bus bandwidth    : 65.3513\n", *rows(1.75)])
    assert [len(table.rows) for table in log.tables] == [31, 14]
    assert "follow the end of another table" in " ".join(log.tables[1].warnings)


def test_cycles_are_counted(tmp_path: Path) -> None:
    log = read(tmp_path, TABLE[:3] + rows(1.75) * 3)
    assert [row.cycle for row in log.rows] == [0] * 14 + [1] * 14 + [2] * 14
    once = rows(1.75, range(20, 21))
    assert [row.cycle for row in read(tmp_path, TABLE[:3] + once * 3).rows] == [0, 1, 2]


def test_an_average_that_is_not_that_of_the_rows(tmp_path: Path) -> None:
    right = read(tmp_path, [*TABLE, "# Avg bus bandwidth    : 65.3513\n"])
    assert not right.tables[0].warnings
    wrong = read(tmp_path, [*TABLE, "# Avg bus bandwidth    : 165.3513\n"])
    assert "165.3513" in wrong.tables[0].warnings[0]
    assert wrong.tables[0].claimed_average_busbw_gbps == 165.3513


def test_units_that_contradict_the_header(tmp_path: Path) -> None:
    log = read(tmp_path, [line.replace("(us)", "(ms)") for line in TABLE])
    assert "the header states ms" in log.tables[0].warnings[0]
    assert log.rows[-1].figures["out_of_place"].time_us == 91003


def test_no_unit_fits(tmp_path: Path) -> None:
    lines = [line.replace(" float ", " float ").replace("  0  ", "  0  ") for line in TABLE[:3]]
    for line in TABLE[20:]:
        words = line.split()
        if len(words) == 13:
            words[6] = words[10] = "7.77"
            lines.append(" ".join(words) + "\n")
    log = read(tmp_path, lines)
    assert log.rows == ()
    assert len(log.refused) == log.candidate_rows > 5
    assert "algbw 7.77 is not" in log.refused[0].reason


@pytest.mark.parametrize("claim", ["broadcast", "reduce_scatter", "all_gather", "sendrecv", "reduce"])
def test_a_claim_that_the_figures_contradict(tmp_path: Path, claim: str) -> None:
    with pytest.raises(UsageError, match=f"cannot be {claim}"):
        read(tmp_path, TABLE, UserClaims(collective=claim))


def test_a_claim_that_the_log_contradicts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="states all_reduce, not"):
        readers.read(GOLDEN / "nccl_tests_2_19_6_single.txt", UserClaims(collective="sendrecv"))


def test_a_claim_that_decides(tmp_path: Path) -> None:
    lines = [line.replace("  sum  ", "  none  ") for line in rows(0.875)]
    lines = [line.replace(line.split()[1], str(int(line.split()[0]) // 32), 1) for line in lines]
    lines = [f"{line.rsplit(None, 1)[0]} 0\n" for line in lines]
    assert {row.ranks for row in read(tmp_path, TABLE[:3] + lines).rows} == {8}
    log = read(tmp_path, TABLE[:3] + lines, UserClaims(collective="alltoall"))
    assert {(row.collective, row.ranks) for row in log.rows} == {("alltoall", 8)}


def test_wrong_elements_and_a_footer_without_them(tmp_path: Path) -> None:
    lines = list(TABLE)
    lines[10] = lines[10].rstrip()[:-1] + "7\n"
    log = read(tmp_path, [*lines, "# Out of bounds values : 0 OK\n"])
    assert "counted wrong elements" in log.tables[0].warnings[0]


def test_a_run_that_failed_before_its_first_row(tmp_path: Path) -> None:
    lines = [
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 1024 step: 2(factor)\n",
        "node-1: Test NCCL failure common.cu:1125 'unhandled system error'\n",
    ]
    log = read(tmp_path, lines)
    assert log.rows == ()
    assert log.tables[0].complete is False
    assert "unhandled system error" in (log.tables[0].end_reason or "")


def test_a_run_that_was_killed_before_its_first_row(tmp_path: Path) -> None:
    log = read(tmp_path, ["# nThread 1 nGpus 8 minBytes 8 maxBytes 1024 step: 2(factor)\n", "#\n"])
    assert log.rows == ()
    assert log.tables[0].complete is False
    assert log.tables[0].early_end_text == "the log has no end: the run was killed or is still running"
    (verdict,) = judge(log)
    assert verdict.reasons == ("no row of it was read", log.tables[0].early_end_text)
    assert verdict.advice == ("repeat the run, and see its messages",)


def test_a_speed_up_in_a_table_of_bandwidths(tmp_path: Path) -> None:
    text = """# all_gather, 8 x H100 GPUs
| Size | A busbw (GB/s) | B busbw (GB/s) | B speedup |
|---|---|---|---|
| 1MB | 100 | 150 | 1.5x |
| 2MB | 100 | 150 | 2.5x |
| 4MB | 100 | n/a | - |
| 8MB | many | 150 | 1.5x |
"""
    log = read(tmp_path, [text])
    assert "1 of 2 printed speed-ups" in log.tables[0].warnings[0]
    assert [(row.size_bytes >> 20, row.variant) for row in log.rows] == [
        (1, "A"),
        (1, "B"),
        (2, "A"),
        (2, "B"),
        (4, "A"),
        (8, "B"),
    ]
    assert [refusal.reason for refusal in log.refused] == ['"many" is not a number']
    assert log.rows[0].figures["unstated"].algbw_gbps == pytest.approx(100 / 0.875)


def test_the_speed_up_of_a_program_over_nccl(tmp_path: Path) -> None:
    text = """# allreduce on 8 x H100 GPUs
| Size (fp16) | Time (us) | AlgBW (GB/s) | Correctness | NCCL Time (us) | NCCL AlgBW (GB/s) | Speed Up |
|---|---|---|---|---|---|---|
| 2.0 KiB | 7.01 | 0.29 | PASS | 10.01 | 0.20 | 1.43 |
| 1.0 MiB | 13.55 | 77.39 | PASS | 17.49 | 59.95 | 1.29 |
"""
    log = read(tmp_path, [text])
    assert log.tables[0].warnings == ()
    assert [(row.variant, row.claimed_speedup) for row in log.rows] == [
        (None, 1.43),
        ("NCCL", None),
        (None, 1.29),
        ("NCCL", None),
    ]


def test_bandwidth_of_unknown_kind_is_left_out(tmp_path: Path) -> None:
    text = "| Size | Bandwidth (GB/s) | Latency (us) |\n|--|--|--|\n| 1MB | 100 | 12 |\n"
    log = read(tmp_path, [text])
    (row,) = log.rows
    assert row.figures["unstated"].time_us == 12
    assert row.figures["unstated"].busbw_gbps is None
    assert "does not say if it is algbw" in log.tables[0].warnings[0]


def test_other_tables_are_ignored(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no row"):
        read(tmp_path, ["| Variable | Default |\n|---|---|\n| 8 | 2 |\n", "| Size | Color |\n|--|--|\n| 1MB | red |\n"])


def low_bandwidth_log(last_busbw: str) -> str:
    """A log without the collective's name, in which small sizes have as many digits of busbw, with leading zeros."""
    header = "# nThread 1 nGpus 8 minBytes 1024 maxBytes 1073741824 step: 4(factor) warmup iters: 5 iters: 20\n"
    ranks = "".join(
        f"#  Rank {rank:2} Pid {4000 + rank} on n0 device {rank} [0x1{rank}] NVIDIA L40S\n" for rank in range(8)
    )
    columns = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    rows = [
        (8, "20.01", "0.00", "0.00"), (1024, "20.15", "0.05", "0.09"), (2048, "20.50", "0.10", "0.17"),
        (4096, "20.95", "0.20", "0.34"), (16384, "23.58", "0.69", "1.22"), (65536, "34.39", "1.91", "3.34"),
        (262144, "77.03", "3.40", "5.96"), (1048576, "250.21", "4.19", "7.33"), (4194304, "939.96", "4.46", "7.81"),
        (268435456, "58976.1", "4.55", "7.97"), (1073741824, "233786", "4.59", last_busbw),
    ]  # fmt: skip
    lines = (
        f"{size:12} {size // 4:12} float sum -1 {time:>8} {algbw:>7} {busbw:>7} 0 {time:>8} {algbw:>7} {busbw:>7} 0\n"
        for size, time, algbw, busbw in rows
    )
    return header + ranks + columns + "".join(lines)


def test_leading_zeros_are_no_digits_that_determine_the_factor(tmp_path: Path) -> None:
    (table,) = read(tmp_path, [low_bandwidth_log("8.04")]).tables
    assert (table.collective, table.ranks, len(table.rows)) == ("all_reduce", 8, 11)
    (refusal,) = read(tmp_path, [low_bandwidth_log("9.04")]).refused
    assert refusal.line == 21
    assert "busbw 9.04 is not algbw 4.59 x 1.75" in refusal.reason


def test_a_row_with_the_time_zero_is_refused(tmp_path: Path) -> None:
    log = read(tmp_path, [low_bandwidth_log("8.03").replace("233786", "     0")])
    (refusal,) = log.refused
    assert refusal.reason == "the time is 0, but algbw is 4.59"
    assert len(log.rows) == 10
