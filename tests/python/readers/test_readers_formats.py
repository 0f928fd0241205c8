"""Every format, era, prefix and wrapping that logs come in, each with a log made here."""

import json
import re
from pathlib import Path

import pytest

from busbw import readers
from busbw.errors import BusbwError, UsageError
from busbw.logs.log import Figure, Log
from busbw.readers import UserClaims
from busbw.readers.tables.layouts import BOTH

HEADER = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
ROWS = """\
   536870912     134217728     float     sum      -1   2622.9  204.69  383.79      0   2622.4  204.72  383.86      0
  1073741824     268435456     float     sum      -1   5200.4  206.47  387.14      0   5199.4  206.51  387.21      0
  2147483648     536870912     float     sum      -1    10308  208.32  390.61      0    10389  206.70  387.57      0
"""
FOOTER = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 386.697\n"
TABLE = HEADER + ROWS + FOOTER


def read(folder: Path, text: str | bytes, claims: UserClaims | None = None) -> Log:
    file = folder / "log"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return readers.read(file, claims or UserClaims())


def demand_the_table(log: Log) -> None:
    """That the log holds the three rows of TABLE and nothing else."""
    assert [refusal.reason for refusal in log.refused] == []
    assert log.candidate_rows == 3
    assert [row.size_bytes for row in log.rows] == [536870912, 1073741824, 2147483648]
    assert [row.figures["out_of_place"].busbw_gbps for row in log.rows] == [383.79, 387.14, 390.61]
    assert [row.figures["in_place"].time_us for row in log.rows] == [2622.4, 5199.4, 10389]
    assert {(row.collective, row.ranks, row.dtype, row.redop, row.root, row.cycle) for row in log.rows} == {
        ("all_reduce", 16, "float", "sum", None, 0)
    }
    assert all(figure.check == "checked" and figure.wrong_elements == 0 for figure in figures(log))


def figures(log: Log) -> list[Figure]:
    return [figure for row in log.rows for figure in row.figures.values()]


def prefixed(prefix: str, text: str = TABLE) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "[1,0]<stdout>:",
        "[1,0]<stdout>: ",
        "[prterun-host-1234@1,0]<stdout>: ",
        " 0: ",
        "  0:",
        "[0] ",
        "[rank0]: ",
        "[default0]:",
        "2026-08-06T01:02:03.123456789-07:00 ",
        "2026-08-06T01:02:03Z [1,0]<stdout>:",
        "launcher-abc12 nccl-tests ",
        "[pod/launcher-abc12/nccl-tests] ",
        "[node-7:1234] ",
        "> ",
        "    ",
        "- ",
        "[1,0]<stdout>:[rank0]: 0: ",
        "\x1b[32m",
        "2026-08-06 01:02:03,456 [1,0]<stdout>:",
    ],
)
def test_prefixes(tmp_path: Path, prefix: str) -> None:
    demand_the_table(read(tmp_path, prefixed(prefix)))


@pytest.mark.parametrize(
    "text",
    [
        TABLE.replace("\n", "\r\n"),
        TABLE.replace("  ", " \t"),
        TABLE.replace(" ", "\u00a0"),
        "".join(f"\x1b[1m{line}\x1b[0m\n" for line in TABLE.splitlines()),
        "\ufeff" + TABLE,
        TABLE.replace("#", ""),
        "Here it is:\n```\n" + TABLE + "```\nAll good.\n",
        "<pre>\n" + TABLE + "</pre>\n",
        "the training prints <table> here\n" + TABLE,
        "the training prints <table> here\n" + ROWS,
        prefixed("[1,0]&lt;stdout&gt;:"),
        ROWS,
        TABLE.replace("#wrong", "#wrong ").replace("#        (B)", "# (B)"),
        "".join("| " + " | ".join(line.split()) + " |\n" for line in ROWS.splitlines()),
        "<table>" + "".join(f"<tr><td>{'</td><td>'.join(line.split())}</td></tr>\n" for line in ROWS.splitlines()),
    ],
)
def test_wrappings(tmp_path: Path, text: str) -> None:
    demand_the_table(read(tmp_path, text))


def test_tags_in_the_middle_of_a_row(tmp_path: Path) -> None:
    lines = []
    for line in ROWS.splitlines():
        words = line.split()
        lines.append(f"[0] {'   '.join(words[:5])}[0]    {'  '.join(words[5:9])}[0]    {'  '.join(words[9:])}")
    demand_the_table(read(tmp_path, prefixed("[0] ", HEADER) + "\n".join(lines) + "\n" + prefixed("[0] ", FOOTER)))


INFO = "ip-10-0-0-1:123:456 [0] NCCL INFO Connected all rings"


@pytest.mark.parametrize("between", [f"{INFO}\n", f"{INFO}\n{INFO} again\n", "\n"])
def test_rows_broken_by_lines_of_the_library(tmp_path: Path, between: str) -> None:
    broken = HEADER
    for line in ROWS.splitlines():
        words = line.split()
        broken += f"{'  '.join(words[:5])}{between}   {'  '.join(words[5:9])}{between}  {'  '.join(words[9:])}\n"
    demand_the_table(read(tmp_path, broken + FOOTER))


def test_lines_of_the_library_between_rows(tmp_path: Path) -> None:
    text = HEADER + "".join(f"{INFO}\n{line}\n" for line in ROWS.splitlines()) + FOOTER
    demand_the_table(read(tmp_path, text))


def test_milliseconds_of_2017(tmp_path: Path) -> None:
    text = """nThread 1 nGpus 2 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20
# NCCL Tests compiled with NCCL 2.0
#  bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res
     1048576        262144   float     sum    2.059   0.51   0.51      N/A    3.314   0.32   0.32      N/A
     4194304       1048576   float     sum    8.059   0.52   0.52    0e+00    8.314   0.50   0.50    0e+00

 Out of bounds values : 0 OK
 Avg bus bandwidth    : 0.4625
"""
    log = read(tmp_path, text)
    assert [row.figures["out_of_place"].time_us for row in log.rows] == pytest.approx([2059, 8059])
    assert log.tables[0].format == "nccl-tests text, 2.0 to 2.3"
    assert [figure.check for figure in figures(log)] == ["not_checked", "not_checked", "checked", "checked"]
    assert log.rows[1].figures["in_place"].wrong_elements == 0
    assert log.tables[0].settings["nThread"] == "1"
    assert log.tables[0].settings["warmup iters"] == "5"


ERROR_HEADER = (
    "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
)


@pytest.mark.parametrize(
    ("line", "collective", "ranks", "redop", "root"),
    [
        (
            "268435456 67108864 float sum 122131 2.20 4.33 2e-06 122165 2.20 4.33 2e-06",
            "all_reduce",
            None,
            "sum",
            None,
        ),
        ("268435456 1048576 float 520935 0.52 0.51 0e+00 519562 0.52 0.51 1e+00", "all_gather", 64, None, None),
        (
            "268435456 67108864 float 0 2000.0 134.22 134.22 0e+00 2000.0 134.22 134.22 0e+00",
            "broadcast",
            None,
            None,
            0,
        ),
        (
            "268435456 67108864 float sum 3 2000.0 134.22 134.22 0e+00 2000.0 134.22 134.22 0e+00",
            "reduce",
            None,
            "sum",
            3,
        ),
    ],
)
def test_columns_of_2019(
    tmp_path: Path, line: str, collective: str, ranks: int | None, redop: str | None, root: int | None
) -> None:
    log = read(tmp_path, ERROR_HEADER + line + "\n")
    (row,) = log.rows
    assert (row.collective, row.ranks, row.redop, row.root) == (collective, ranks, redop, root)
    assert log.tables[0].format == "nccl-tests text, 2.4 to 2.12"


def test_an_error_is_not_a_number_of_wrong_elements(tmp_path: Path) -> None:
    line = "268435456 1048576 float 520935 0.52 0.51 0e+00 519562 0.52 0.51 1e+00\n"
    right, wrong = read(tmp_path, ERROR_HEADER + line).rows[0].figures.values()
    assert (right.wrong_elements, wrong.wrong_elements) == (0, None)
    assert "1e+00" in wrong.warnings[0]


def test_algbw_without_own_share(tmp_path: Path) -> None:
    """As all_gather counted in 2019: 32768 of 65536 bytes in 16.57 us are 1.98 GB/s."""
    text = "".join(
        f"  {size} {size // 8} float {time:.2f} {size / 2 / time / 1e3:.2f} {size / 2 / time / 1e3:.2f} 0e+00 "
        f"{time:.2f} {size / 2 / time / 1e3:.2f} {size / 2 / time / 1e3:.2f} 0e+00\n"
        for size, time in ((65536, 16.57), (131072, 20.11), (1048576, 80.25))
    )
    log = read(tmp_path, ERROR_HEADER.replace("redop", "") + text)
    assert len(log.rows) == 3
    assert log.rows[0].ranks == 2
    assert "shares of the other ranks" in " ".join(log.tables[0].warnings)


def test_wide_numbers_and_wrong_elements(tmp_path: Path) -> None:
    size = 17179869184
    text = (
        HEADER
        + f"{size} {size // 4} bfloat16 avg -1 1.2e+08 0.14 0.27 1.04858e+09 118000 145.59 283.90 12\n".replace(
            str(size // 4), str(size // 2)
        )
    )
    (row,) = read(tmp_path, text).rows
    assert row.figures["out_of_place"].wrong_elements == 1048580000
    assert row.figures["in_place"].wrong_elements == 12
    assert row.dtype == "bfloat16"


@pytest.mark.parametrize(
    ("columns", "words", "check"),
    [
        ("", ["2026-07-09", "12:34:56"], lambda row: row.timestamp == "2026-07-09 12:34:56"),
        ("cputime", [], lambda row: row.figures["out_of_place"].time_us is None),
    ],
)
def test_options_of_the_table(tmp_path: Path, columns: str, words: list[str], check: object) -> None:
    header = HEADER.replace("   time", columns) if columns else HEADER
    text = header + "".join(f"{line} {' '.join(words)}\n" for line in ROWS.splitlines())
    log = read(tmp_path, text)
    assert len(log.rows) == 3
    assert all(check(row) for row in log.rows)  # type: ignore[operator]


def test_algorithms_of_the_table_have_their_own_fields(tmp_path: Path) -> None:
    header = HEADER.replace("\n", " algorithm algorithm timestamp\n")
    ends = ("ring/ll128/4 tree/simple/24", "copy_engine/-/- -/-/-", "nvls/-/16 nvls/-/16 2026-07-09 12:34:56")
    rows = read(tmp_path, header + "".join(map("{} {}\n".format, ROWS.splitlines(), ends))).rows
    figures = [row.figures[placement] for row in rows for placement in BOTH]
    assert [(one.algorithm, one.protocol, one.channels) for one in figures] == [
        ("ring", "ll128", 4),
        ("tree", "simple", 24),
        ("copy_engine", None, None),
        (None, None, None),
        ("nvls", None, 16),
        ("nvls", None, 16),
    ]
    assert [figure.time_us for figure in figures] == [2622.9, 2622.4, 5200.4, 5199.4, 10308, 10389]
    assert rows[2].timestamp == "2026-07-09 12:34:56"


def test_cpu_time_has_its_own_field(tmp_path: Path) -> None:
    log = read(tmp_path, HEADER.replace("   time", "cputime") + ROWS.replace("2622.9", "   3.1"))
    assert log.rows[0].figures["out_of_place"].cpu_time_us == 3.1
    assert log.rows[0].figures["out_of_place"].busbw_gbps == 383.79


@pytest.mark.parametrize(("wrong_in_place", "collective", "ranks"), [("0", "all_reduce", 2), ("N/A", "sendrecv", None)])
def test_a_check_in_place_tells_two_ranks_from_sendrecv(
    tmp_path: Path, wrong_in_place: str, collective: str, ranks: int | None
) -> None:
    """On two ranks, busbw / algbw of all_reduce is 1, as that of sendrecv, which is undefined in place."""
    figures_text = "20.00 52.43 52.43"
    row = f"1048576 262144 float sum -1 {figures_text} 0 {figures_text} {wrong_in_place}\n"
    (table,) = read(tmp_path, HEADER + row).tables
    assert (table.collective, table.ranks) == (collective, ranks)


IN_PLACE_FIRST_HEADER = """\
#                                                                  in-place                   out-of-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


@pytest.mark.parametrize(("wrong_in_place", "collective", "ranks"), [("0", "all_reduce", 2), ("N/A", "sendrecv", None)])
def test_a_check_in_place_tells_two_ranks_from_sendrecv_if_in_place_is_first(
    tmp_path: Path, wrong_in_place: str, collective: str, ranks: int | None
) -> None:
    figures_text = "20.00 52.43 52.43"
    row = f"1048576 262144 float sum -1 {figures_text} {wrong_in_place} {figures_text} 0\n"
    (table,) = read(tmp_path, IN_PLACE_FIRST_HEADER + row).tables
    assert (table.collective, table.ranks) == (collective, ranks)


def test_an_unchecked_in_place_alltoall_is_not_applicable_in_either_order(tmp_path: Path) -> None:
    program = "# Collective test starting: alltoall_perf\n"
    row = "1048576 131072 float none -1 20.00 52.43 26.21 N/A 20.00 52.43 26.21 N/A\n"
    for header in (HEADER, IN_PLACE_FIRST_HEADER):
        log = read(tmp_path, program + header + row)
        checks = {placement: figure.check for placement, figure in log.rows[0].figures.items()}
        assert checks == {"out_of_place": "not_checked", "in_place": "not_applicable"}, header


FOREIGN_HEADERS = {
    "the row has a type that the header does not name": """\
#                                    in-place                       out-of-place
#       size         count     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
""",
    "the header belongs to rows without a type": """\
#                                    in-place                       out-of-place
#       size         count     time   algbw   busbw #wrong     time   algbw   busbw #wrong
 1048576 262144 11.96 87.67 153.43 0 12.50 83.89 146.80 0
""",
}


@pytest.mark.parametrize("header", FOREIGN_HEADERS.values(), ids=FOREIGN_HEADERS)
def test_a_foreign_header_does_not_swap_the_placements(tmp_path: Path, header: str) -> None:
    table = read(tmp_path, header + ROWS).tables[-1]
    assert [row.figures["in_place"].time_us for row in table.rows] == [2622.4, 5199.4, 10389]
    assert "the header above these rows has no type column" in table.warnings[0]


def test_a_foreign_header_after_rows_does_not_swap_their_placements(tmp_path: Path) -> None:
    log = read(tmp_path, HEADER + ROWS + FOREIGN_HEADERS["the header belongs to rows without a type"])
    assert [len(table.rows) for table in log.tables] == [3, 1]
    assert [row.figures["in_place"].time_us for row in log.rows] == [2622.4, 5199.4, 10389, 11.96]


def test_placements_without_columns_are_refused(tmp_path: Path) -> None:
    """Without columns, nothing says if the line belongs to these rows, which begin out of place elsewhere."""
    log = read(tmp_path, "#            in-place           out-of-place\n" + ROWS)
    assert log.rows == ()
    assert {refusal.reason for refusal in log.refused} == {
        "a line above names in-place first, but no columns: the order is unknown"
    }


def test_the_three_times_of_records_have_their_own_fields() -> None:
    figure = readers.read(Path(__file__).parents[2] / "golden" / "records.jsonl").rows[0].figures["out_of_place"]
    assert (figure.time_us, figure.device_time_us, figure.launch_time_us) == (16, 8, 2)


def test_copybw_column(tmp_path: Path) -> None:
    rows = ""
    for line in ROWS.splitlines():
        words = line.split()
        rows += " ".join([*words[:8], "1234.5", *words[8:12], "1234.5", words[12]]) + "\n"
    log = read(tmp_path, HEADER.replace("#wrong", "copybw #wrong") + rows + FOOTER)
    demand_the_table(log)


def test_per_iteration_columns(tmp_path: Path) -> None:
    log = readers.read(Path(__file__).parents[2] / "golden" / "nccl_tests_2_19_6_iter.txt")
    assert log.rows[0].figures["in_place"].per_iteration == {
        "min_us": 22.21,
        "max_us": 35.87,
        "p99_us": 35.87,
        "cv_percent": 12.33,
    }


MSCCLPP = """#                                    in-place                       out-of-place
#       size         count     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


def test_mscclpp_shows_in_place_first(tmp_path: Path) -> None:
    rows = "1048576 262144 11.96 87.67 153.43 0 12.50 83.89 146.80 0\n"
    rows += "2097152 524288 17.45 120.18 210.32 0 18.0 116.51 203.89 0\n"
    log = read(tmp_path, MSCCLPP + rows)
    assert [row.figures["in_place"].time_us for row in log.rows] == [11.96, 17.45]
    assert [row.figures["out_of_place"].busbw_gbps for row in log.rows] == [146.80, 203.89]
    assert {(row.collective, row.ranks, row.dtype) for row in log.rows} == {("all_reduce", 8, None)}
    assert log.tables[0].format == "mscclpp-test text"


def test_mscclpp_with_a_side_left_blank(tmp_path: Path) -> None:
    rows = "1048576 262144 11.96 87.67 153.43 0\n2097152 524288 17.45 120.18 210.32 0\n"
    log = read(tmp_path, MSCCLPP + rows)
    assert [row.figures["unstated"].time_us for row in log.rows] == [11.96, 17.45]


def test_nccom(tmp_path: Path) -> None:
    text = """size(B) count(elems) type time(us) algbw(GB/s) busbw(GB/s)
524288 524288 uint8 120.00 4.37 7.65
1048576 1048576 uint8 200.00 5.24 9.18
2147483648 2147483648 uint8 20000.00 107.37 187.90
Avg bus bandwidth: 68.2433GB/s
"""
    log = read(tmp_path, text)
    assert [row.figures["unstated"].busbw_gbps for row in log.rows] == [7.65, 9.18, 187.90]
    assert log.rows[0].ranks == 8
    assert log.tables[0].claimed_average_busbw_gbps == 68.2433


def test_nccom_has_integers_of_16_bits(tmp_path: Path) -> None:
    text = """size(B) count(elems) type time(us) algbw(GB/s) busbw(GB/s)
524288 262144 uint16 120.00 4.37 7.65
1048576 524288 int16 200.00 5.24 9.18
"""
    log = read(tmp_path, text)
    assert [(row.dtype, row.count) for row in log.rows] == [("uint16", 262144), ("int16", 524288)]


def test_nccom_prints_gibibytes(tmp_path: Path) -> None:
    """The row of the guide to nccom-test: 33,554,432 bytes in 768 us are 43.69 GB/s and 40.69 GiB/s."""
    text = """size(B) count(elems) type time(us) algbw(GB/s) busbw(GB/s)
33554432 33554432 uint8 768 40.69 40.69
Avg bus bandwidth: 40.6901GB/s
"""
    (table,) = read(tmp_path, text).tables
    (row,) = table.rows
    assert row.figures["unstated"].algbw_gbps == pytest.approx(33554432 / 768e3, rel=2e-4)
    assert row.figures["unstated"].busbw_gbps == pytest.approx(33554432 / 768e3, rel=2e-4)
    assert table.claimed_average_busbw_gbps == pytest.approx(33554432 / 768e3, rel=2e-4)
    assert table.warnings == (
        "the header states GB/s, but by bytes / time the bandwidths are in GiB/s; busbw converts them to GB/s",
    )


def test_a_row_of_nccl_tests_is_not_converted(tmp_path: Path) -> None:
    """A table that states its placements is of a program that prints GB/s, so that such a row is damaged."""
    log = read(tmp_path, HEADER + "33554432 8388608 float sum -1 768 40.69 40.69 0 768 40.69 40.69 0\n")
    assert (len(log.rows), len(log.refused)) == (0, 1)


def test_ubx(tmp_path: Path) -> None:
    text = """#                                             ubx                     nccl
#       size         count   type  redop   time   algbw   busbw    time   algbw   busbw  #wrong
     1048576        524288   bf16    sum  10.00  104.86  183.50   20.00   52.43   91.75       0
     2097152       1048576   bf16    sum  20.00  104.86  183.50   40.00   52.43   91.75       0
# Avg bus bandwidth    : ubx=183.5 nccl=91.75
"""
    log = read(tmp_path, text)
    found = [(row.size_bytes, row.variant, row.figures["unstated"].busbw_gbps) for row in log.rows]
    assert found == [
        (1048576, "ubx", 183.5),
        (1048576, "nccl", 91.75),
        (2097152, "ubx", 183.5),
        (2097152, "nccl", 91.75),
    ]
    assert {(row.collective, row.ranks, row.dtype) for row in log.rows} == {("all_reduce", 8, "bfloat16")}


def test_hccl(tmp_path: Path) -> None:
    text = """[BENCHMARK] hcclAllReduce(dataSize=33554432, count=8388608, dtype=float, iterations=10)
[BENCHMARK]     NW Bandwidth   : 258.209121 GB/s
[BENCHMARK]     Algo Bandwidth : 147.548069 GB/s
"""
    (row,) = read(tmp_path, text).rows
    assert (row.collective, row.size_bytes, row.count, row.dtype) == ("all_reduce", 33554432, 8388608, "float")
    assert (row.figures["unstated"].algbw_gbps, row.figures["unstated"].busbw_gbps) == (147.548069, 258.209121)


@pytest.mark.parametrize(
    ("size", "count", "expected"),
    [
        ("²", "5", [(20, 5)]),
        ("", "²", []),
        ("", "9" * 5000, []),
        ("1" * 19, "", []),
        ("1" * 18, "2" * 18, [(int("1" * 18), int("2" * 18))]),
        ("64", "2" * 19, [(64, None)]),
    ],
)
def test_hccl_sizes_and_counts_have_one_limit(
    tmp_path: Path, size: str, count: str, expected: list[tuple[int, int | None]]
) -> None:
    bandwidths = "[BENCHMARK]     NW Bandwidth   : 258.2 GB/s\n[BENCHMARK]     Algo Bandwidth : 147.5 GB/s\n"
    operations = (f"dataSize={size}, count={count}, dtype=float", "dataSize=8, count=2, dtype=float")
    text = "".join(f"[BENCHMARK] hcclAllReduce({operation})\n{bandwidths}" for operation in operations)
    assert [(row.size_bytes, row.count) for row in read(tmp_path, text).rows] == [*expected, (8, 2)]


def test_busbw_before_algbw(tmp_path: Path) -> None:
    text = """all_reduce on 8 ranks
| payload |    busbw   |    algbw   |
| ------: | ---------: | ---------: |
|  32KiB |   0.92GBps |   0.48GBps |
|  64KiB |   1.80GBps |   0.94GBps |
"""
    rows = read(tmp_path, text).rows
    assert [(row.figures["unstated"].busbw_gbps, row.figures["unstated"].algbw_gbps) for row in rows] == [
        (0.92, 0.48),
        (1.80, 0.94),
    ]
    assert [row.size_bytes for row in rows] == [32768, 65536]


@pytest.mark.parametrize("prefix", ["[default0]:", " 0: ", "gpu012: ", "2026-08-06T01:02:03Z [1,0]<stdout>:", "> "])
def test_a_markdown_table_with_a_prefix(tmp_path: Path, prefix: str) -> None:
    text = "all_reduce on 8 ranks\n| size | busbw | algbw |\n| ---: | ---: | ---: |\n| 32KiB | 0.92GBps | 0.48GBps |\n"
    (row,) = read(tmp_path, prefixed(prefix, text)).rows
    assert (row.size_bytes, row.figures["unstated"].busbw_gbps) == (32768, 0.92)


RCCL = [
    '{"#wrong":"0","algBw":0.05,"busBw":0.08,"gpus":4,"inPlace":0,"name":"AllReduce","redop":"sum","size":1024,"time":19.18,"type":"float"}',
    '{"#wrong":"N/A","algBw":0.06,"busBw":0.09,"gpus":4,"inPlace":1,"name":"AllReduce","redop":"sum","size":1024,"time":17.07,"type":"float"}',
    '{"#wrong":"0","algBw":104.86,"busBw":157.29,"gpus":4,"inPlace":0,"name":"AllReduce","redop":"sum","size":2097152,"time":20.00,"type":"float"}',
]


@pytest.mark.parametrize("text", ["\n".join(RCCL), "[" + ",\n".join(RCCL) + "]", "[" + ",".join(RCCL) + ","])
def test_rccl_json(tmp_path: Path, text: str) -> None:
    log = read(tmp_path, text)
    assert [(row.size_bytes, list(row.figures)) for row in log.rows] == [
        (1024, ["out_of_place", "in_place"]),
        (2097152, ["out_of_place"]),
    ]
    assert {(row.collective, row.ranks) for row in log.rows} == {("all_reduce", 4)}
    assert log.rows[0].figures["in_place"].wrong_elements is None


def test_rccl_csv(tmp_path: Path) -> None:
    text = """numCycle,name,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inPlace,time,algBw,busBw,#wrong
0,AllReduce,1,4,4,1,2097152,float,sum,0,20.00,104.86,157.29,0
0,AllReduce,1,4,4,1,2097152,float,sum,1,20.00,104.86,157.29,0
1,AllReduce,1,4,4,1,2097152,float,sum,0,20.00,104.86,157.29,3
0,AllReduce,1,4,4,1,4194304,float,sum,0,oops,104.86,157.29,0
"""
    log = read(tmp_path, text)
    assert [(row.line, row.cycle, len(row.figures)) for row in log.rows] == [(2, 0, 2), (4, 1, 1)]
    assert log.rows[1].figures["out_of_place"].wrong_elements == 3
    assert [refusal.line for refusal in log.refused] == [5]


def test_csv_with_units_in_parentheses(tmp_path: Path) -> None:
    header = "name,ranks,size,type,redop,time(us),algbw(GB/s),busbw(GB/s)"
    (row,) = read(tmp_path, f"{header}\nAllReduce,4,2097152,float,sum,20.00,104.86,157.29\n").rows
    assert row.figures["unstated"].busbw_gbps == 157.29


def test_aws_csv(tmp_path: Path) -> None:
    text = (
        "Size_Bytes,Size_KB,Size_MB,Count,Data_Type,Operation,Root,OOP_Time_us,OOP_AlgBW_GBps,OOP_BusBW_GBps,OOP_Errors,"
        "IP_Time_us,IP_AlgBW_GBps,IP_BusBW_GBps,IP_Errors\n"
        "536870912,524288.0,512.0,134217728,float,sum,-1,2622.9,204.69,383.79,0,2622.4,204.72,383.86,0\n"
        "1073741824,1048576.0,1024.0,268435456,float,sum,-1,5200.4,206.47,387.14,0,5199.4,206.51,387.21,0\n"
        "2147483648,2097152.0,2048.0,536870912,float,sum,-1,10308,208.32,390.61,0,10389,206.70,387.57,0\n"
    )
    demand_the_table(read(tmp_path, text))


def test_json_keyed_by_size(tmp_path: Path) -> None:
    text = (
        '{"results_by_size":{"1048576":{"oop_time":10.0,"oop_algbw":104.86,"oop_busbw":183.5,"oop_error":0,'
        '"ip_time":10.0,"ip_algbw":104.86,"ip_busbw":183.5,"ip_error":0}}}'
    )
    (row,) = read(tmp_path, text).rows
    assert row.size_bytes == 1048576
    assert row.figures["in_place"].busbw_gbps == 183.5


def test_ubx_json(tmp_path: Path) -> None:
    def result(time_us: float, algbw: float) -> list[dict[str, object]]:
        row = {"size_bytes": 1048576, "count": 524288, "dtype": "bf16", "redop": "sum", "errors": 0}
        return [row | {"time_us": time_us, "algbw_gbs": algbw, "busbw_gbs": algbw * 1.75}]

    results = {"ubx": result(10.0, 104.8576), "nccl": result(20.0, 52.4288)}
    text = json.dumps({"collective": "allreduce", "nranks": 8, "backends": list(results), "results": results})
    log = read(tmp_path, text)
    assert [(row.variant, row.ranks, row.dtype) for row in log.rows] == [
        ("ubx", 8, "bfloat16"),
        ("nccl", 8, "bfloat16"),
    ]


JSON_ROW = (
    '{"size":%d,"count":%d,"type":"float","redop":"sum","root":"    -1",'
    '"out_of_place":{"time":%f,"alg_bw":%f,"bus_bw":%f,"nwrong":%s},"in_place":null,"actual_iterations":20,"experiment_name":""}'
)
JSON_HEAD = (
    '{"version":3,"start_time":"2026-07-09 12:34:56","args":["./all_reduce_perf","-g","8"],'
    '"env":["SECRET=1","NCCL_DEBUG=INFO"],"nccl_version":23007,"config":{"nthreads":1,"ngpus":8,'
    '"devices":[{"rank":0,"group":0,"pid":1,"hostname":"h","device":0,"device_hex":"0000:0f:00","device_info":"GPU"}]},'
    '"results":['
)


def json_row(size: int, wrong: str = "0.000000") -> str:
    return JSON_ROW % (size, size // 4, 10.0, size / 1e4, size / 1e4 * 1.75, wrong)


def test_json_of_nccl_tests(tmp_path: Path) -> None:
    text = JSON_HEAD + json_row(1 << 20) + "," + json_row(1 << 21, "null") + '],"end_time":"x","errors":[""]}'
    log = read(tmp_path, text)
    assert [(row.collective, row.ranks, row.root) for row in log.rows] == [("all_reduce", 8, None)] * 2
    assert [row.figures["out_of_place"].check for row in log.rows] == ["checked", "not_checked"]
    (table,) = log.tables
    assert table.environment == {"NCCL_DEBUG": "INFO"}
    assert (table.library, table.complete, table.start_time) == ("NCCL 2.30.7", True, "2026-07-09 12:34:56")


@pytest.mark.parametrize("program", ["alltoallv_perf", "./build/alltoallv_perf_mpi"])
def test_json_has_collective_and_traffic_of_the_command_line(tmp_path: Path, program: str) -> None:
    args = [program, "-t", "2", "-H", "3", "--skew", "hot:1", "--with", "alltoall -b 1M -e 1M"]
    head = JSON_HEAD.replace('["./all_reduce_perf","-g","8"]', json.dumps(args))
    log = read(tmp_path, head + json_row(1 << 20).replace('"sum"', '"none"') + '],"end_time":"x"}')
    (table,) = log.tables
    assert table.collective == "alltoallv"
    assert {name: table.settings.get(name) for name in ("one_sided", "rma_contexts", "skew", "neighbor")} == {
        "one_sided": "True",
        "rma_contexts": "3",
        "skew": "hot:1",
        "neighbor": "alltoall -b 1M -e 1M",
    }


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (["-H"], {"one_sided": "True", "rma_contexts": "1"}),
        (["-H", "--skew", "hot:1"], {"one_sided": "True", "rma_contexts": "1", "skew": "hot:1"}),
        (["-H", "0", "--skew", "hot:1"], {"skew": "hot:1"}),
        (["-H", "no", "--with", "compute:matmul"], {"neighbor": "compute:matmul"}),
        (["-H", "-1"], {}),
        (["--skew", "--with", "compute:matmul"], {"neighbor": "compute:matmul"}),
    ],
)
def test_json_reads_each_flag_of_traffic_alone(tmp_path: Path, words: list[str], settings: dict[str, str]) -> None:
    head = JSON_HEAD.replace('["./all_reduce_perf","-g","8"]', json.dumps(["alltoallv_perf", *words]))
    (table,) = read(tmp_path, head + json_row(1 << 20) + "]}").tables
    names = {"one_sided", "rma_contexts", "skew", "neighbor"} & table.settings.keys()
    assert {name: table.settings[name] for name in names} == settings


@pytest.mark.parametrize("args", [[], ["all_reduce_perf"], ["python", "all_reduce_perf"]])
def test_json_without_such_flags_states_no_traffic(tmp_path: Path, args: list[str]) -> None:
    log = read(
        tmp_path, JSON_HEAD.replace('["./all_reduce_perf","-g","8"]', json.dumps(args)) + json_row(1 << 20) + "]}"
    )
    (table,) = log.tables
    assert not {"one_sided", "rma_contexts", "skew", "neighbor"} & table.settings.keys()


@pytest.mark.parametrize("end", ["}", '},"busbw":{"version":"0.1.0"}'])
def test_json_lists_one_device_of_each_process(tmp_path: Path, end: str) -> None:
    """busbw writes this list as nccl-tests does."""
    head = JSON_HEAD.replace('"nthreads":1,"ngpus":8', '"nthreads":4,"ngpus":2')
    log = read(tmp_path, head + json_row(1 << 20) + '],"end_time":"x"' + end.removeprefix("}") + "}")
    assert [(row.ranks, table.warnings) for table in log.tables for row in table.rows] == [(8, ())]


@pytest.mark.parametrize("pids", [[1, 2, 3, 4], [1, 1, 1, 1], [None] * 4], ids=["unequal", "equal", "none"])
def test_json_counts_processes_with_equal_pids(tmp_path: Path, pids: list[int | None]) -> None:
    """Each process in a container of its own may have pid 1."""
    devices = [{"rank": rank, "group": 0, "pid": pid, "hostname": "h"} for rank, pid in enumerate(pids)]
    head = re.sub(r'"devices":\[.*?\]', f'"devices":{json.dumps(devices)}', JSON_HEAD)
    head = head.replace('"ngpus":8', '"ngpus":1')
    row = json_row(1 << 20).replace('"bus_bw":%f' % ((1 << 20) / 1e4 * 1.75), '"bus_bw":%f' % ((1 << 20) / 1e4 * 1.5))
    log = read(tmp_path, head + row + '],"end_time":"x"}')
    assert [(row.ranks, table.warnings) for table in log.tables for row in table.rows] == [(4, ())]


@pytest.mark.parametrize("end", ["", ",", ',{"size":4194304,"count":10485', ',{"size":4194304,"type":"flo'])
def test_json_that_was_cut(tmp_path: Path, end: str) -> None:
    log = read(tmp_path, JSON_HEAD + json_row(1 << 20) + "," + json_row(1 << 21) + end)
    assert [row.size_bytes for row in log.rows] == [1 << 20, 1 << 21]
    assert log.tables[0].complete is False
    assert len(log.refused) == (1 if "{" in end else 0)
    assert log.candidate_rows == len(log.rows) + len(log.refused)


def test_invalid_json(tmp_path: Path) -> None:
    row = json_row(1 << 20).replace(
        '"in_place":null', '"in_place":{"time":"nan","alg_bw":inf,"bus_bw":-nan,"nwrong":nan}'
    )
    log = read(tmp_path, JSON_HEAD + row + '],"end_time":"x","average_bus_bandwidth":{"bandwidth":inf}}')
    (only,) = log.rows
    assert list(only.figures) == ["out_of_place"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("  \n \n", "is empty"),
        ("\x7fELF\0\0\1", "is not text"),
        (b"\x1f\x8b\x08abc", "is compressed"),
        (b"\xff\xfea\0b\0", "has no row"),
        (b"\xff\xfe\0\0a\0\0\0", "is not text"),
        ("nothing of the kind\n", "has no row"),
        ('{"version":4,"results":[]}', "has format 4"),
        ('{"version":3,"results":[' + "[" * 500, "is not valid JSON"),
        ('{"results"}', "has no row"),
        ('{"kind":"run","schema_version":"2.0"}\n', "record schema 2.0"),
    ],
)
def test_unreadable_logs_have_one_sentence(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    with pytest.raises(BusbwError, match=sentence) as error:
        read(tmp_path, text)
    assert error.value.exit_code == 2


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        readers.read(tmp_path / "missing")
    with pytest.raises(UsageError, match="cannot read"):
        readers.read(tmp_path)
