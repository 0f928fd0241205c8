"""Do the eleven programs print what nccl-tests' users and their parsers expect?"""

import re
from fractions import Fraction
from typing import Any

import pytest

from .model import DTYPES, OPS, alltoallv_pair_bytes, expected_row, redop_column
from .programs import COLLECTIVES, REDUCING, ROOTED, Finished, Programs, of_kind, read_json, read_records
from .table import TableRow, footer, rows_by_blanks, rows_by_pattern

UNCHECKED_IN_PLACE = {"alltoall", "alltoallv", "sendrecv"}


def passed(finished: Finished) -> str:
    """The table of a run that went well."""
    assert (finished.code, finished.stderr) == (0, ""), finished
    assert footer(finished.stdout)["Out of bounds values"] == "0 OK"
    return finished.stdout


def comments(table: str) -> list[str]:
    return [line for line in table.splitlines() if line.startswith("#")]


def expect_nothing_wrong(rows: list[TableRow], collective: str) -> None:
    assert {row.out_of_place.wrong for row in rows} == {0.0}
    assert {row.in_place.wrong for row in rows} == {None if collective in UNCHECKED_IN_PLACE else 0.0}


def shown_as(text: str, value: float) -> bool:
    """Whether a column shows `value`, rounded to its own decimals."""
    decimals = len(text.partition(".")[2])
    return abs(float(text) - value) <= 0.5000001 * 10**-decimals


# ---- every program --------------------------------------------------------------------------------------------------


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
    table = passed(programs.run("all_reduce", "-b", "1M", "-e", "1M"))
    (row,) = rows_by_pattern(table)
    assert (row.out_of_place.busbw_gbps, row.in_place.busbw_gbps) == (0, 0)
    assert row.out_of_place.algbw_gbps > 0
    assert "# One rank: nothing crosses a link, so busbw is 0" in table


@pytest.mark.parametrize("name", ["busbw-engine", "all_reduce_perf"])
def test_versions(programs: Programs, name: str) -> None:
    finished = programs.run(name, "--version")
    assert (finished.code, finished.stderr) == (0, "")
    assert re.fullmatch(
        r"busbw \d+\.\d+\.\d+\nbackend host \d+\.\d+\.\d+\nrecord schema \d+\.\d+\n.*\n", finished.stdout
    )


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


# ---- the layout -----------------------------------------------------------------------------------------------------

# From nccl-tests 2.19.6 on four H200, with the numbers of this file's runs; the blanks at line ends are its own.
SETTINGS = (
    "# nThread 2 nGpus 1 minBytes 1024 maxBytes 1048576 step: 4(factor) warmup iters: 1 iters: 20 agg iters: 1"
    " validation: 1 graph: 0 unalign: 0"
)
COLUMNS = [
    "#",
    "#                                                              out-of-place                       in-place          ",
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw"
    "  #wrong ",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)"
    "         ",
]
PER_ITERATION_COLUMNS = [
    "#",
    "#                                                                 out-of-place (+ per-iteration)"
    "                                in-place (+ per-iteration)",
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99"
    "    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv% ",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)     (us)     (us)"
    "      (%)     (us)  (GB/s)  (GB/s)             (us)     (us)     (us)      (%) ",
]
FOOTER = [
    "# Out of bounds values : 0 OK",
    "# Avg bus bandwidth    : * ",
    "#",
    "# Collective test concluded: all_reduce_perf",
    "#",
    "",
]
OURS = re.compile(r"# (\d+ ranks share \d+ processors: times include waiting for a turn)$")
DEVICE = re.compile(r"#  Rank {2}[01] Group {2}0 Pid {1,6}\d+ on +\S+ device {2}[01] \[cpu\] \S.*$")


def layout(table: str) -> list[str]:
    """The lines that are not rows, with what differs from machine to machine masked; without lines of our own."""
    lines = [line for line in table.split("\n")[:-1] if not line.strip()[:1].isdigit() and not OURS.match(line)]
    lines[0] = re.sub(r"=\S+", "=*", lines[0])
    lines = ["<device>" if DEVICE.match(line) else line for line in lines]
    return [re.sub(r"(?<=bandwidth    : )\S+", "*", line) for line in lines]


def test_layout(programs: Programs) -> None:
    table = passed(programs.run("all_reduce", "-t", 2, "-b", "1K", "-e", "1M", "-f", 4))
    assert layout(table) == [
        "# nccl-tests version 2.19.6 nccl-headers=* nccl-library=* busbw=* backend=*",
        "# Collective test starting: all_reduce_perf",
        SETTINGS,
        "#",
        "# Using devices",
        "<device>",
        "<device>",
        *COLUMNS,
        *FOOTER,
    ]
    rows = [line for line in table.splitlines() if line.strip()[:1].isdigit()]
    assert len(rows) == 6
    # Each column ends where nccl-tests' does.
    ends = [12, 26, 36, 44, 52, 61, 69, 77, 85, 94, 102, 110, 118]
    for row in rows:
        assert [found.end() for found in re.finditer(r"\S+", row)] == ends


def test_layout_per_iteration(programs: Programs) -> None:
    table = passed(programs.run("all_reduce", "-t", 2, "-b", "1K", "-e", "1M", "-f", 4, "-I", 1, "-K", 3))
    lines = layout(table)
    banner = "# Per-Iteration Report: host clock timing; i_* uses max over process rows; summary skips first 3 iterations "
    assert lines[2:4] == [SETTINGS, banner]
    assert lines[8:12] == PER_ITERATION_COLUMNS
    assert lines[12:] == FOOTER
    rows = rows_by_blanks(table)
    assert {len(row) for row in rows} == {21}
    for row in rows:
        for columns in (row[5:13], row[13:21]):
            minimum, maximum, p99, spread = map(float, columns[4:])
            assert 0 < minimum <= p99 <= maximum
            assert spread >= 0


def test_timestamps_and_cpu_time(programs: Programs) -> None:
    table = passed(programs.run("reduce", "-t", 2, "-b", 64, "-e", 256, "-f", 2, "-S", 1, "-C", 1))
    heading, units = comments(table)[-7:-5]
    assert heading == (
        "#       size         count      type   redop    root  cputime   algbw   busbw  #wrong  cputime   algbw   busbw"
        "  #wrong           timestamp"
    )
    assert units == (
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)"
        "           %Y-%m-%d %H:%M:%S"
    )
    rows = [line for line in table.splitlines() if line.strip()[:1].isdigit()]
    assert len(rows) == 3
    for row in rows:
        assert re.search(r"  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", row)
        assert len(row) == 118 + 21
        assert len(row.split()) == 15


def test_all_switches_together(programs: Programs) -> None:
    switches = ["-I", 1, "-S", 1, "-C", 1, "-m", 2, "-z", 1, "-N", 2, "-a", 3, "-u", 1, "-p", 1, "-w", 2, "-c", 2]
    table = passed(
        programs.run("all_reduce", "--processes", 2, "-b", 64, "-e", 256, "-f", 2, "-n", 4, "-J", "out.json", *switches)
    )
    assert "warmup iters: 2 iters: 4 agg iters: 2 validation: 2 graph: 0 unalign: 1\n" in table
    assert "# Blocking Enabled: wait and barrier after each inner iteration (-m) \n" in table
    assert "# Parallel Init Enabled: threads call into NcclInitRank concurrently \n" in table
    rows = rows_by_blanks(table)
    assert {len(row) for row in rows} == {23}
    assert [row[0] for row in rows] == ["64", "128", "256"] * 2
    assert {(row[8], row[16]) for row in rows} == {("0", "0")}
    document = read_json(programs.folder / "out.json")
    assert [result["size"] for result in document["results"]] == [64, 128, 256] * 2
    assert all(len(result["in_place_per_iter"]["times_us"]) == 4 for result in document["results"])


def test_many_ranks_cut_the_device_list(programs: Programs) -> None:
    """nccl-tests gives each process 2048 bytes for its device lines."""
    table = passed(programs.run("all_reduce", "-t", 48, "-b", 8, "-e", 8, "-n", 1))
    listing = table[table.index("#  Rank") : table.index("#\n#     ")]
    assert len(listing) == 2047
    assert listing.endswith("...\n")


# ---- what the measuring flags do ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocking", "line"),
    [
        (0, None),
        (1, "# Blocking Enabled: wait and barrier after each inner iteration (-m) "),
        (2, "# Blocking Enabled: wait after each inner iteration (-m), no barrier "),
        (3, "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier "),
    ],
)
def test_blocking(programs: Programs, blocking: int, line: str | None) -> None:
    table = passed(programs.run("alltoall", "-t", 2, "-b", "4K", "-e", "4K", "-n", 3, "-m", 2, "-z", blocking))
    expect_nothing_wrong(rows_by_pattern(table), "alltoall")
    assert [found for found in comments(table) if "Blocking" in found] == ([line] if line else [])


@pytest.mark.parametrize("average", range(4))
def test_average_over_ranks(programs: Programs, average: int) -> None:
    arguments = ["-t", 3, "-b", "64K", "-e", "64K", "-a", average, "-m", 2, "--records", "out.jsonl"]
    passed(programs.run("reduce", *arguments))
    for row in of_kind(read_records(programs.folder / "out.jsonl"), "row"):
        ranks = [sum(samples) / len(samples) for samples in row["samples_us"]]
        combined = [ranks[0], sum(ranks) / len(ranks), min(ranks), max(ranks)][average]
        assert row["time_us"] == pytest.approx(combined, abs=0.001)


def test_placements(programs: Programs) -> None:
    shown = {}
    for placement in ("in", "out", "both"):
        arguments = ["-t", 2, "-b", 64, "-e", 64, "--placement", placement, "--records", f"{placement}.jsonl"]
        (row,) = rows_by_blanks(passed(programs.run("all_gather", *arguments)))
        shown[placement] = [column != "N/A" for column in row[5:]]
        records = of_kind(read_records(programs.folder / f"{placement}.jsonl"), "row")
        assert [line["placement"] for line in records] == {
            "in": ["in_place"],
            "out": ["out_of_place"],
            "both": ["out_of_place", "in_place"],
        }[placement]
    assert shown == {"in": [False] * 4 + [True] * 4, "out": [True] * 4 + [False] * 4, "both": [True] * 8}


def test_list_of_sizes(programs: Programs) -> None:
    table = passed(programs.run("broadcast", "-t", 2, "--sizes", "1K,3000,0.5M,8", "-n", 2))
    assert [row.size_bytes for row in rows_by_pattern(table)] == [1024, 3000, 524288, 8]
    assert " minBytes 8 maxBytes 524288 step: 4(sizes) " in table


def test_fixed_step(programs: Programs) -> None:
    table = passed(programs.run("broadcast", "-t", 2, "-b", "1K", "-e", "3K", "-i", 1000, "-n", 2))
    assert [row.size_bytes for row in rows_by_pattern(table)] == [1024, 2024, 3024]
    assert " step: 1000(bytes) " in table


def rows_with_rule(programs: Programs, *rule: object) -> tuple[str, list[dict[str, Any]]]:
    arguments = ["-t", 2, "-b", "256K", "-e", "256K", "-n", 10, *rule, "--records", "out.jsonl"]
    table = passed(programs.run("all_reduce", *arguments))
    return table, of_kind(read_records(programs.folder / "out.jsonl"), "row")


def test_stops_by_count(programs: Programs) -> None:
    _, rows = rows_with_rule(programs)
    assert [(row["stopped_by"], row["stats"]["samples"]) for row in rows] == [("iterations", 10)] * 2


def test_stops_when_the_interval_is_narrow(programs: Programs) -> None:
    _, rows = rows_with_rule(programs, "--target-ci", "50%")
    for row in rows:
        low, high = row["stats"]["median_ci95_us"]
        assert row["stopped_by"] == "target_ci"
        assert high - low <= row["stats"]["median_us"] * 1.0000001
        assert row["warnings"] == []


def test_stops_when_the_time_is_over(programs: Programs) -> None:
    _, rows = rows_with_rule(programs, "--max-time", "100ms")
    assert [row["stopped_by"] for row in rows] == ["max_time"] * 2
    for row in rows:
        # Until the last batch begins the samples lie within the budget, and each batch has ten.
        assert row["stats"]["samples"] % 10 == 0
        assert {len(samples) for samples in row["samples_us"]} == {row["stats"]["samples"]}


def test_a_missed_target_is_a_warning(programs: Programs) -> None:
    table, rows = rows_with_rule(programs, "--target-ci", "0.0000001%", "--max-time", "100ms")
    assert [row["stopped_by"] for row in rows] == ["max_time"] * 2
    assert all("--target-ci" in warning for row in rows for warning in row["warnings"])
    assert table.count("# Warning: ") == 2


@pytest.mark.parametrize("ranks", [2, 3])
def test_ping_pong_is_half_a_round_trip(programs: Programs, ranks: int) -> None:
    arguments = ["-t", ranks, "-b", "4K", "-e", "4K", "--ping-pong", 1, "-a", 3, "--records", "out.jsonl"]
    table = passed(programs.run("sendrecv", *arguments))
    expect_nothing_wrong(rows_by_pattern(table), "sendrecv")
    for row in of_kind(read_records(programs.folder / "out.jsonl"), "row"):
        assert row["time_us"] == pytest.approx(max(map(sum, row["samples_us"])) / 20, abs=0.001)
        assert row["busbw_gbps"] == pytest.approx(4096 / row["time_us"] / 1e3)


# ---- alltoallv's environment ----------------------------------------------------------------------------------------

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


# ---- groups ---------------------------------------------------------------------------------------------------------


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
    headings = re.findall(r"^# Group (\d+): (\d+) ranks$", table, flags=re.MULTILINE)
    assert headings == [(str(group), str(len(ranks))) for group, ranks in members.items()] * 2

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
    sums = re.findall(r"^# Sum over (\d+) groups: out-of-place algbw (\S+) ", table, flags=re.MULTILINE)
    for index, (groups, algbw) in enumerate(sums):
        assert int(groups) == len(members)
        case = results[index * len(members) : (index + 1) * len(members)]
        assert shown_as(algbw, sum(row["out_of_place"]["alg_bw"] for row in case))
    assert len(sums) == 2

    records = of_kind(read_records(programs.folder / "out.jsonl"), "row")
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
