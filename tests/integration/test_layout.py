"""Is the table nccl-tests 2.19.6's, byte for byte in layout?"""

import re

from .programs import Programs, read_json
from .table import comments, passed, rows_by_blanks

# From nccl-tests 2.19.6 on four H200, with the numbers of this file's runs; the blanks at line ends are its own.
SETTINGS = (
    "# nThread 2 nGpus 1 minBytes 1024 maxBytes 1048576 step: 4(factor) warmup iters: 1 iters: 20 agg iters: 1"
    " validation: 1 graph: 0 unalign: 0"
)
COLUMNS = [
    "#",
    "#                                                              out-of-place"
    "                       in-place          ",
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
OURS = re.compile(
    r"# Warning: (\d+ ranks share \d+ processors?, so times include waiting for a turn; |"
    r"(out of place|in place): rank \d+ on \S+ (began|starts each iteration) \d+ us after all others).*$"
)
"""Values that depend on the machine and its load."""
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
    banner = "# Per-Iteration Report: host clock timing; i_* uses max over process rows"
    assert lines[2:4] == [SETTINGS, f"{banner}; summary skips first 3 iterations "]
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
    heading, units = [line for line in comments(table) if not OURS.match(line)][-7:-5]
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
