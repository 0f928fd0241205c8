"""A log reads the same with and without wrappers: prefixes, counters, quoting, markup."""

import json
import time
from functools import cache
from itertools import zip_longest
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_wrappers import ALL_WRAPPERS, COLUMNS, MARKUP, PREFIXES, PYTHON, WRAPPERS

from busbw import readers
from busbw.judge.verdicts import judge
from busbw.logs.log import Log

GOLDEN = Path(__file__).resolve().parents[3] / "golden"
WITHOUT_ROWS = ("text_headers", "text_many_ranks")
PATHS = {
    path.stem: path
    for path in (*GOLDEN.glob("*_2_19_6_*.txt"), *GOLDEN.glob("text_*.txt"), *(GOLDEN / "logs").glob("*.txt"))
    if path.stem not in WITHOUT_ROWS
}
LOGS = {name: path.read_text().splitlines() for name, path in PATHS.items()}
"""Lines of each log."""


def read(folder: Path, text: str) -> Log:
    file = folder / "log"
    file.write_bytes(text.encode())
    return readers.read(file)


def facts(log: Log) -> object:
    """Everything that a log says, without line numbers."""
    tables = [
        msgspec.structs.replace(
            table, first_line=0, rows=tuple(msgspec.structs.replace(row, line=0) for row in table.rows)
        )
        for table in log.tables
    ]
    refused = [refusal.reason for refusal in log.refused]
    return msgspec.to_builtins((tables, refused, log.candidate_rows, log.warnings, judge(log)))


@cache
def expected(name: str) -> object:
    return facts(readers.read(PATHS[name]))


def test_the_corpus_has_rows_and_verdicts() -> None:
    assert len(LOGS) >= 15
    grades = {verdict.grade for path in PATHS.values() for verdict in judge(readers.read(path))}
    assert {"GOOD", "BROKEN", "UNSURE"} <= grades
    assert sum(len(readers.read(path).rows) for path in PATHS.values()) > 250


@pytest.mark.parametrize("wrapper", ALL_WRAPPERS)
def test_a_wrapper_changes_nothing(tmp_path: Path, wrapper: str) -> None:
    """Two tables after each other, each with a command line, a device list and a footer."""
    name = "nccl_tests_2_19_6_nccl"
    assert facts(read(tmp_path, ALL_WRAPPERS[wrapper](LOGS[name]))) == expected(name)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_changes_nothing(tmp_path: Path, encoding: str) -> None:
    name = "nccl_tests_2_19_6_nccl"
    file = tmp_path / "log"
    file.write_bytes(("\ufeff" + "\r\n".join([*LOGS[name], "\u2713 done", ""])).encode(encoding))
    assert facts(readers.read(file)) == expected(name)


@pytest.mark.parametrize("wrapper", sorted({**PYTHON, **COLUMNS}))
@settings(deadline=None, max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(LOGS)), prefix=st.sampled_from(sorted(PREFIXES)), is_outer=st.booleans())
def test_a_prefix_with_a_string_or_columns_changes_nothing(
    tmp_path: Path, wrapper: str, name: str, prefix: str, is_outer: bool
) -> None:
    order = (wrapper, prefix) if is_outer else (prefix, wrapper)
    lines = LOGS[name]
    for each in order:
        lines = ALL_WRAPPERS[each](lines).splitlines()
    assert facts(read(tmp_path, "".join(f"{line}\n" for line in lines))) == expected(name)


def test_messages_between_tabs_are_read(tmp_path: Path) -> None:
    """As `aws logs get-log-events --query 'events[].message' --output text` prints them."""
    name = "nccl_tests_2_19_6_nccl"
    assert facts(read(tmp_path, "\t".join(LOGS[name]) + "\n")) == expected(name)


def test_a_published_table_in_json_is_read(tmp_path: Path) -> None:
    """The attributes of its tags hold escaped quotation marks."""
    path = GOLDEN / "seeds" / "002_d730ed66047f0856.txt"
    plain = readers.read(path)
    assert len(plain.rows) == 84
    lines = path.read_text().splitlines()
    for text in (json.dumps({"body": "\n".join(lines)}), json.dumps(lines, indent=1), json.dumps(lines)):
        assert facts(read(tmp_path, text + "\n")) == facts(plain)


def test_a_published_table_with_an_unclear_header_is_refused(tmp_path: Path) -> None:
    """Its header rows have different widths, because the attributes that join columns are damaged."""
    text = (GOLDEN / "seeds" / "002_d730ed66047f0856.txt").read_text()
    log = read(tmp_path, text.replace('colspan="4"', 'colspan=""4""'))
    assert log.rows == ()
    assert {refusal.reason for refusal in log.refused} == {
        "the rows of the header have 2 to 8 columns: the columns are unclear"
    }
    assert len(log.refused) == 21


PAIRS = st.tuples(st.sampled_from(sorted(WRAPPERS)), st.sampled_from(sorted(WRAPPERS))).filter(
    # A page within a page escapes its text twice. A page of one line has its prefix before one of its lines only.
    lambda pair: not (pair[0] in MARKUP and pair[1] in MARKUP) and pair[0] != "HTML breaks"
)


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(LOGS)), pair=PAIRS)
def test_two_wrappers_change_nothing(tmp_path: Path, name: str, pair: tuple[str, str]) -> None:
    inner, outer = pair
    text = WRAPPERS[outer](WRAPPERS[inner](LOGS[name]).splitlines())
    assert facts(read(tmp_path, text)) == expected(name)


def test_json_within_apostrophes_is_not_decoded_twice(tmp_path: Path) -> None:
    """The first line of the value of JSON was lost, with the version of the program."""
    name = "h200_x4_sweep_c1"
    text = WRAPPERS["quoted"](WRAPPERS["Ansible"](LOGS[name]).splitlines())
    assert facts(read(tmp_path, text)) == expected(name)


def interleave(first: list[str], second: list[str], burst: int) -> str:
    """Lines of two processes that write at the same time, in bursts."""
    lines = []
    for begin in range(0, max(len(first), len(second)), burst):
        lines += first[begin : begin + burst] + second[begin : begin + burst]
    return "".join(f"{line}\n" for line in lines)


WRITERS = {
    "mpirun": lambda writer, index: f"[1,{writer}]<stdout>:",
    "srun -l": lambda writer, index: f"{writer}: ",
    "pdsh": lambda writer, index: f"gpu01{writer}: ",
    "syslog": lambda writer, index: f"Nov 26 10:{index // 60:02}:{index % 60:02} gpu1{writer} srun[{400 + writer}]: ",
    "Ray": lambda writer, index: f"(run pid={77 - writer}, ip=10.0.0.{writer}) ",
    "grep -Hn": lambda writer, index: f"run-{writer}.log:{index + 1}:",
}


@pytest.mark.parametrize("prefix", WRITERS)
@pytest.mark.parametrize("burst", [1, 4, 17])
def test_interleaved_writers_are_kept_apart(tmp_path: Path, prefix: str, burst: int) -> None:
    names = ("nccl_tests_2_19_6_single", "h200_x4_sweep_c1")
    first, second = [
        [WRITERS[prefix](writer, index) + line for index, line in enumerate(LOGS[name])]
        for writer, name in enumerate(names)
    ]
    log = read(tmp_path, interleave(first, second, burst))
    rows = {tuple(sorted(str(row.figures) for row in table.rows)) for table in log.tables}
    assert rows == {tuple(sorted(str(row.figures) for row in readers.read(PATHS[name]).rows)) for name in names}


def test_equal_tables_of_interleaved_ranks_are_kept_apart(tmp_path: Path) -> None:
    """Eight ranks that each write every line: their numbers increase, but return within a table."""
    lines = LOGS["h200_x4_sweep_c1"]
    text = "".join(f"[1,{rank}]<stdout>:{line}\n" for line in lines for rank in range(8))
    log = read(tmp_path, text)
    assert len(log.tables) == 8
    assert {len(table.rows) for table in log.tables} == {len(readers.read(PATHS["h200_x4_sweep_c1"]).rows)}


def test_hosts_with_one_row_each_are_kept_apart(tmp_path: Path) -> None:
    """As after `pdsh ... | grep`: each line has its own host, and nothing shows that the rows are of one table."""
    row = next(line for line in reversed(LOGS["h200_x4_sweep_c1"]) if " sum " in line)
    log = read(tmp_path, "".join(f"gpu{host:03}: {row}\n" for host in range(20)))
    assert [len(table.rows) for table in log.tables] == [1] * 20


@pytest.mark.parametrize("sizes", ["equal", "increasing"])
@pytest.mark.parametrize("host_count", [2, 3, 20])
def test_a_host_number_is_no_counter(tmp_path: Path, host_count: int, sizes: str) -> None:
    rows = [line for line in LOGS["h200_x4_sweep_c1"] if " sum " in line]
    lines = [f"gpu{host:03}: {rows[host if sizes == 'increasing' else 0]}\n" for host in range(host_count)]
    assert [len(table.rows) for table in read(tmp_path, "".join(lines)).tables] == [1] * host_count


ENTRIES = {
    "before": lambda host, line: {"labels": {"host": host}, "stream": "stdout", "message": line},
    "after": lambda host, line: {"message": line, "stream": "stdout", "labels": {"host": host}},
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("hosts", [("gpu0", "gpu1"), ("10.0.0.1", "10.0.0.2"), ("alpha", "beta")])
def test_writers_in_json_are_kept_apart(tmp_path: Path, hosts: tuple[str, str], entry: str, indent: int | None) -> None:
    """Two hosts that write at the same time, and are not at the same line."""
    names = ("nccl_tests_2_19_6_single", "h200_x4_sweep_c1")
    pairs = zip_longest(*[LOGS[name] for name in names])
    entries = [
        json.dumps(ENTRIES[entry](host, line), indent=indent)
        for lines in pairs
        for host, line in zip(hosts, lines, strict=True)
        if line is not None
    ]
    log = read(tmp_path, "[\n" + ",\n".join(entries) + "\n]\n")
    assert sorted((table.program, table.ranks, len(table.rows)) for table in log.tables) == sorted(
        (table.program, table.ranks, len(table.rows)) for name in names for table in readers.read(PATHS[name]).tables
    )


MARKDOWN = """# Latencies on 8x H100

| Message Size | NCCL latency (us) | MSCCL latency (us) |
|--------------|------------------:|-------------------:|
| 1KB | 13.12 | 7.50 |
| 2KB | 14.39 | 7.48 |
| 4KB | 15.28 | 7.49 |

all of them
"""


@pytest.mark.parametrize("prefix", ["web-1  | ", "| ", "2026-11-26 10:00:00.000 | INFO     | __main__:run:42 - "])
def test_a_markdown_table_may_follow_a_bar(tmp_path: Path, prefix: str) -> None:
    plain = facts(read(tmp_path, MARKDOWN))
    assert facts(read(tmp_path, "".join(f"{prefix}{line}\n" for line in MARKDOWN.splitlines()))) == plain


@pytest.mark.parametrize("wrapper", ["cat -n", "grep -n", "epoch seconds", "dmesg"])
def test_numbers_may_begin_again(tmp_path: Path, wrapper: str) -> None:
    """Numbered logs after each other."""
    names = ("nccl_tests_2_19_6_single", "h200_x4_sweep_c1", "nccl_tests_2_19_6_single")
    log = read(tmp_path, "".join(WRAPPERS[wrapper](LOGS[name]) for name in names))
    whole = [table for name in names for table in readers.read(PATHS[name]).tables]
    assert [(table.program, table.library, table.ranks, len(table.rows)) for table in log.tables] == [
        (table.program, table.library, table.ranks, len(table.rows)) for table in whole
    ]


def test_a_time_that_changes_late_does_not_split_a_table(tmp_path: Path) -> None:
    """The lines that are read ahead show one second only; the next table has a later one in its middle."""
    lines = LOGS["h200_x4_sweep_c1"] * 20
    change = len(lines) - 12
    text = "".join(f"{1_764_150_000 + (index >= change)} {line}\n" for index, line in enumerate(lines))
    assert [len(table.rows) for table in read(tmp_path, text).tables] == [
        len(readers.read(PATHS["h200_x4_sweep_c1"]).rows)
    ] * 20


def test_rows_without_types_have_prefixes(tmp_path: Path) -> None:
    header = """#                                    in-place                       out-of-place
#       size         count     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
    rows = """     1048576        262144    11.96   87.67  153.43      0    12.50   83.89  146.80      0
     2097152        524288    17.45  120.18  210.32      0    18.00  116.51  203.89      0
"""
    lines = (header + rows).splitlines()
    plain = facts(read(tmp_path, header + rows))
    for wrapper in WRAPPERS.keys() - {"epoch seconds", "identifier", "textPayload lines", "HTML table"}:
        # In five lines, those four show too little: the seconds change once, and identifiers twice.
        assert facts(read(tmp_path, WRAPPERS[wrapper](lines))) == plain, wrapper


@pytest.mark.parametrize(
    "text", ['"', '\\"', "<", "&", "8 ", "8 2 float ", "[0] ", "a", "1", "12:", '{"a":', "NCCL INFO "]
)
def test_a_line_of_a_megabyte_takes_linear_time(tmp_path: Path, text: str) -> None:
    lines = "\n".join(LOGS["h200_x4_sweep_c1"]) + "\n"
    begin = time.process_time()
    log = read(tmp_path, lines + text * (1_000_000 // len(text)) + "NCCL INFO\n")
    assert time.process_time() - begin < 4
    assert len(log.rows) == len(readers.read(PATHS["h200_x4_sweep_c1"]).rows)


def test_a_log_of_a_megabyte_on_one_line(tmp_path: Path) -> None:
    lines = LOGS["h200_x4_sweep_c1"] * 200
    begin = time.process_time()
    log = read(tmp_path, json.dumps({"stdout": "\n".join(lines)}))
    assert time.process_time() - begin < 15
    assert len(log.rows) == 200 * len(readers.read(PATHS["h200_x4_sweep_c1"]).rows)
