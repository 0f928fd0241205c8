"""Do the eleven programs measure what nccl-tests' programs of the same names do, and can its parsers read it?"""

import re
import socket
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

from busbw.collectives import COLLECTIVES

from .model import DTYPES, OPS, alltoallv_pair_bytes, expected_row, redop_column
from .programs import (
    REDUCING,
    ROOTED,
    Programs,
    of_kind,
    read_json,
    read_records,
    records_of,
    run_and_record,
)
from .table import comments, expect_nothing_wrong, footer, passed, rows_by_blanks, rows_by_pattern, shown_as


@pytest.mark.parametrize("ranks", [["-t", 4], ["--processes", 2, "-t", 2]], ids=["threads", "processes"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_parsers_read_the_table(programs: Programs, collective: str, ranks: list[object]) -> None:
    asked = [8 * 16**step for step in range(5)]
    arguments = [*ranks, "-b", 8, "-e", "512K", "-f", 16, "-n", 2, "-J", "out.json"]
    table = passed(programs.run(collective, *arguments))
    rows = rows_by_pattern(table)
    expected = [expected_row(collective, size, "float", 4) for size in asked]
    assert [(row.size_bytes, row.count) for row in rows] == [(row.size_bytes, row.count) for row in expected]
    assert {(row.dtype, row.redop) for row in rows} == {("float", redop_column(collective, "sum"))}
    assert {row.root for row in rows} == {0 if collective in ROOTED else -1}
    expect_nothing_wrong(rows, collective)

    words = rows_by_blanks(table)
    assert {len(row) for row in words} == {12 if collective == "hypercube" else 13}
    results = read_json(programs.folder / "out.json")["results"]
    for row, result, expectation in zip(words, results, expected, strict=True):
        for columns, placement in ((row[-8:-4], "out_of_place"), (row[-4:], "in_place")):
            numbers = result[placement]
            algbw_gbps = expectation.algbw_bytes / numbers["time"] / 1e3
            # The document holds six decimals of each.
            assert numbers["alg_bw"] == pytest.approx(algbw_gbps, rel=1e-5, abs=1e-6)
            assert numbers["bus_bw"] == pytest.approx(algbw_gbps * expectation.bus_factor, rel=1e-5, abs=1e-6)
            assert all(map(shown_as, columns[:3], (numbers["time"], numbers["alg_bw"], numbers["bus_bw"]))), row
    busbw = [result[placement]["bus_bw"] for result in results for placement in ("out_of_place", "in_place")]
    average = float(footer(table)["Avg bus bandwidth"])
    assert average == pytest.approx(sum(busbw) / len(busbw), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("collective", [name for name in COLLECTIVES if name != "hypercube"])
def test_sizes_that_do_not_divide(programs: Programs, collective: str) -> None:
    asked = [7, 100, 1000, 99_999]
    sizes = ",".join(map(str, asked))
    table = passed(programs.run(collective, "-t", 3, "--sizes", sizes, "-n", 2, "-d", "half", "-u", 3))
    rows = rows_by_pattern(table)
    expected = [expected_row(collective, size, "half", 3) for size in asked]
    assert [(row.size_bytes, row.count) for row in rows] == [(row.size_bytes, row.count) for row in expected]
    expect_nothing_wrong(rows, collective)
    assert " unalign: 3\n" in table


@pytest.mark.parametrize("collective", REDUCING)
def test_every_type_and_operator(programs: Programs, collective: str) -> None:
    table = passed(programs.run(collective, "-t", 3, "-b", 768, "-e", 768, "-d", "all", "-o", "all", "-n", 1))
    rows = rows_by_pattern(table)
    assert [(row.dtype, row.redop) for row in rows] == [(dtype, op) for dtype in DTYPES for op in OPS]
    for row in rows:
        expected = expected_row(collective, 768, row.dtype, 3)
        assert (row.size_bytes, row.count) == (expected.size_bytes, expected.count)
    expect_nothing_wrong(rows, collective)


@pytest.mark.parametrize("collective", [name for name in COLLECTIVES if name not in REDUCING])
def test_every_type_where_nothing_is_reduced(programs: Programs, collective: str) -> None:
    table = passed(programs.run(collective, "-t", 2, "-b", 768, "-e", 768, "-d", "all", "-n", 1))
    rows = rows_by_pattern(table)
    assert [row.dtype for row in rows] == DTYPES
    assert {row.size_bytes for row in rows} == {768}
    expect_nothing_wrong(rows, collective)


@pytest.mark.parametrize("collective", ["reduce", "sendrecv"])
def test_operators_repeat_the_rows(programs: Programs, collective: str) -> None:
    table = passed(programs.run(collective, "-t", 2, "-b", 64, "-e", 128, "-f", 2, "-o", "all", "-n", 1))
    assert [row.redop for row in rows_by_pattern(table)] == [op for op in OPS for _ in range(2)]


@pytest.mark.parametrize("word", ["all", "-1"])
@pytest.mark.parametrize("collective", ROOTED)
def test_all_roots(programs: Programs, collective: str, word: str) -> None:
    arguments = ["--processes", 3, "-b", 96, "-e", 192, "-f", 2, "-n", 1, "-r", word]
    rows = rows_by_pattern(passed(programs.run(collective, *arguments)))
    assert [row.root for row in rows] == [0, 0, 1, 1, 2, 2]
    expect_nothing_wrong(rows, collective)


def test_one_root(programs: Programs) -> None:
    rows = rows_by_pattern(passed(programs.run("gather", "-t", 3, "-b", 96, "-e", 96, "-r", 2)))
    assert [row.root for row in rows] == [2]
    rows = rows_by_pattern(passed(programs.run("all_gather", "-t", 3, "-b", 96, "-e", 96, "-r", 2)))
    assert [row.root for row in rows] == [-1]


def test_one_rank_moves_nothing_over_a_link(programs: Programs) -> None:
    table = passed(programs.run("all_reduce", "-b", "1M", "-e", "1M", "--records", "out.jsonl"))
    (row,) = rows_by_pattern(table)
    assert (row.out_of_place.busbw_gbps, row.in_place.busbw_gbps) == (0, 0)
    # The table's two decimals may be 0.00 on a machine that has other things to do.
    assert all(record["algbw_gbps"] > 0 for record in of_kind(records_of(programs), "row"))
    assert "# One rank: nothing crosses a link, so busbw is 0" in table


@pytest.mark.parametrize("name", ["busbw-engine", "all_reduce_perf"])
def test_versions(programs: Programs, name: str) -> None:
    finished = programs.run(name, "--version")
    assert (finished.code, finished.stderr) == (0, "")
    assert re.fullmatch(
        r"busbw \d+\.\d+\.\d+\nbuild [0-9a-f]{40}\n"
        r"backend host \d+\.\d+\.\d+\n(?:backend nccl, built with the headers of 2\.\d+\.\d+\n)?"
        r"record schema \d+\.\d+\n.*\n",
        finished.stdout,
    )


def test_records_name_the_build_that_measured(programs: Programs) -> None:
    passed(run_and_record(programs, "all_reduce", "--sizes", 64, "-n", 1))
    header = records_of(programs)[0]
    executable = Path(header["busbw_path"])
    assert executable.samefile(programs.path("busbw-engine"))
    notes = subprocess.run(["readelf", "-n", executable], capture_output=True, text=True, check=True).stdout
    assert f"Build ID: {header['busbw_build']}" in notes


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_flag(programs: Programs, flag: str) -> None:
    finished = programs.run("gather", flag)
    assert (finished.code, finished.stderr) == (0, "")
    assert finished.stdout.startswith("Usage: gather_perf ")
    for letter in "tgbeifnwmNpcordzyTGCSJaRxDVMuIKh":
        assert re.search(rf"^ +-{letter}, --\w+", finished.stdout, flags=re.MULTILINE), letter
    for name in ("processes", "backend", "sizes", "placement", "target-ci", "max-time", "ping-pong", "records"):
        assert re.search(rf"^ +--{name} ", finished.stdout, flags=re.MULTILINE), name


def test_the_engine_by_its_own_name(programs: Programs) -> None:
    table = passed(programs.run("busbw-engine", "scatter", "-t", 2, "-b", 64, "-e", 64))
    assert "# Collective test starting: scatter_perf\n" in table
    assert len(rows_by_pattern(table)) == 1


def test_a_link_to_a_program(programs: Programs) -> None:
    """People link programs into folders of their own; the link still finds the engine."""
    link = programs.folder / "all_gather_perf"
    link.symlink_to(programs.path("all_gather_perf"))
    linked = Programs(programs.folder, programs.folder)
    table = passed(linked.run("all_gather", "-t", 2, "-b", 64, "-e", 64))
    assert "# Collective test starting: all_gather_perf\n" in table


def test_a_suffix_of_the_name(programs: Programs) -> None:
    """As nccl-tests built with NAME_SUFFIX=_mpi has it, which scripts then call."""
    (programs.folder / "all_reduce_perf_mpi").symlink_to(programs.path("all_reduce_perf"))
    linked = Programs(programs.folder, programs.folder)
    table = passed(linked.run("all_reduce_perf_mpi", "-t", 2, "-b", 64, "-e", 64, "--records", "out.jsonl"))
    assert "# Collective test starting: all_reduce_perf_mpi\n" in table
    assert "# Collective test concluded: all_reduce_perf_mpi\n" in table
    assert read_records(programs.folder / "out.jsonl")[0]["collective"] == "all_reduce"


# ---- alltoallv's environment -----------------------------------------------------------------------------------------

SUMMARY = "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY"
MATRIX = "NCCL_TESTS_ALLTOALLV_MATRIX_FILE"


@pytest.mark.parametrize("spread", ["0", "0.25", "1.0"])
def test_alltoallv_spread(programs: Programs, spread: str) -> None:
    environment = {"NCCL_TESTS_ALLTOALLV_SPREAD": spread, SUMMARY: "1"}
    table = passed(programs.run("alltoallv", "-t", 4, "-b", "100000", "-e", "100000", environment=environment))
    (row,) = rows_by_pattern(table)
    expected = expected_row("alltoallv", 100_000, "float", 4, Fraction(spread))
    assert (row.size_bytes, row.count) == (expected.size_bytes, expected.count)
    pairs = [alltoallv_pair_bytes(row.count * 16, distance, 4, Fraction(spread)) for distance in range(4)]
    title = f"mode=generated nranks=4 total_bytes={row.count * 16} spread={float(spread):.3f}"
    lines = [line for line in comments(table) if title in line or "send_bytes=" in line]
    assert [line.startswith(f"# {SUMMARY}: {title} time_usec=") for line in lines] == [True, *[False] * 4] * 2
    assert [line.split()[2:4] for line in lines if "send_bytes" in line] == [
        [f"send_bytes={sum(pairs)}", f"recv_bytes={sum(pairs)}"]
    ] * 8


def test_alltoallv_matrix(programs: Programs) -> None:
    # The third row and column do not take part; cells are rounded down to 16 bytes after scaling.
    (programs.folder / "matrix.txt").write_text("100 200 1\n\n 3e2\t40 1 \n1 1 1\n")
    environment = {MATRIX: "matrix.txt", "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE": "2.5", SUMMARY: "1"}
    arguments = ["-t", 2, "-b", "1K", "-e", "1K", "-d", "double"]
    table = passed(programs.run("alltoallv", *arguments, environment=environment))
    (row,) = rows_by_pattern(table)
    assert (row.size_bytes, row.count) == (240 + 736, 0)
    assert "mode=matrix nranks=2 matrix_dim=3 scale=2.500 " in table
    assert "#   rank=0 send_bytes=736 recv_bytes=976 " in table
    assert "#   rank=1 send_bytes=832 recv_bytes=592 " in table


# ---- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "members"),
    [
        ({"NCCL_TESTS_SPLIT": "MOD 2"}, {0: [0, 1, 4, 5], 1: [2, 3]}),
        ({"NCCL_TESTS_SPLIT": "DIV 2"}, {0: [0, 1, 2, 3], 1: [4, 5]}),
        ({"NCCL_TESTS_SPLIT": "&0x2"}, {0: [0, 1, 2, 3], 2: [4, 5]}),
        ({"NCCL_TESTS_SPLIT": "or 0b1"}, {1: [0, 1, 2, 3], 3: [4, 5]}),
        ({"NCCL_TESTS_SPLIT_MASK": "0x3"}, {0: [0, 1], 1: [2, 3], 2: [4, 5]}),
    ],
)
def test_groups(programs: Programs, environment: dict[str, str], members: dict[int, list[int]]) -> None:
    """Every group's rows are shown and recorded, and their sum."""
    arguments = ["--processes", 3, "-t", 2, "-b", "1K", "-e", "2K", "-f", 2, "-n", 2]
    outputs = ["-J", "out.json", "--records", "out.jsonl"]
    table = passed(programs.run("all_gather", *arguments, *outputs, environment=environment))
    shown = re.findall(r"^#  Rank +(\d+) Group +(\d+) ", table, flags=re.MULTILINE)
    assert shown == [(str(rank), str(group)) for rank, group in sorted((r, g) for g in members for r in members[g])]
    headings = re.findall(r"^# Group (\d+): (\d+) ranks on (\S+)$", table, flags=re.MULTILINE)
    assert headings == [(str(group), str(len(ranks)), socket.gethostname()) for group, ranks in members.items()] * 2

    expected = [
        (group, expected_row("all_gather", size, "float", len(ranks)))
        for size in (1024, 2048)
        for group, ranks in members.items()
    ]
    rows = rows_by_pattern(table)
    assert [(row.size_bytes, row.count) for row in rows] == [(row.size_bytes, row.count) for _, row in expected]
    expect_nothing_wrong(rows, "all_gather")
    results = read_json(programs.folder / "out.json")["results"]
    assert [(row["group"], row["size"]) for row in results] == [(group, row.size_bytes) for group, row in expected]
    records = of_kind(read_records(programs.folder / "out.jsonl"), "row")
    sums = re.findall(r"^# Sum over (\d+) groups: out of place algbw (\S+) ", table, flags=re.MULTILINE)
    for index, (groups, algbw) in enumerate(sums):
        assert int(groups) == len(members)
        case = records[::2][index * len(members) : (index + 1) * len(members)]
        # The document's six decimals are too few: their sum may lie on the other side of where rounding turns.
        assert shown_as(algbw, sum(row["algbw_gbps"] for row in case))
    assert len(sums) == 2

    for row, (group, expectation) in zip(records[::2], expected, strict=True):
        assert (row["group"], row["ranks"]) == (group, len(members[group]))
        assert len(row["samples_us"]) == len(members[group])
        busbw = expectation.algbw_bytes / row["time_us"] / 1e3 * expectation.bus_factor
        assert row["busbw_gbps"] == pytest.approx(busbw, rel=1e-6)


def test_one_group_looks_as_without(programs: Programs) -> None:
    environment = {"NCCL_TESTS_SPLIT": "AND 0"}
    table = passed(programs.run("all_gather", "--processes", 2, "-b", "1K", "-e", "1K", environment=environment))
    assert not re.search("^# (Group|Sum)", table, flags=re.MULTILINE)
    assert len(rows_by_pattern(table)) == 1
