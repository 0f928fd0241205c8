"""A long log stays in a file: commands see the same log as in memory, and memory does not grow with its length."""

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from busbw import readers
from busbw.compare import compare_logs
from busbw.exporters import EXPORTERS
from busbw.exporters.redact import redact
from busbw.judge import judge
from busbw.logs.log import Figure, Log, Row, Table
from busbw.logs.plain_rows import PlainColumns, PlainRows
from busbw.readers.tables import assembly, stored_tables
from busbw.readers.tables.collection import collect
from busbw.readers.tables.events import TableChunk
from busbw.readers.tables.stored_tables import StoredTables
from busbw.readers.text import uniform_row_reader
from busbw.terminal import log_lines

GOLDEN = Path(__file__).parents[3] / "golden"
FILES = sorted(path for path in (GOLDEN / "seeds").iterdir()) + [
    GOLDEN / name for name in ("records.jsonl", "text_groups.txt", "text_wrong_data.txt", "nccl_tests.json")
]

HEAD = "# nThread 1 nGpus 4 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 1 iters: 20\n"
COLUMNS = "# size count type redop root" + 2 * " time algbw busbw #wrong" + "\n"
ROW = "262144 65536 float sum -1" + 2 * " 21.00 12.48 18.72 0" + "\n"
TABLE = HEAD + COLUMNS + ROW * 31 + "# Avg bus bandwidth    : 18.72\n"
JSON_ROW = (
    '{"size":262144,"count":65536,"type":"float","redop":"sum","root":-1,'
    '"out_of_place":{"time":21.0,"alg_bw":12.48,"bus_bw":18.72,"nwrong":0}},\n'
)


def in_file(path: Path) -> Log:
    return collect(str(path), readers.stream(path), max_items_in_memory=0)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_commands_see_the_same_log(path: Path) -> None:
    in_memory, stored = readers.read(path), in_file(path)
    assert tuple(stored.tables) == in_memory.tables
    assert sorted(stored.refused, key=lambda refusal: refusal.line) == list(in_memory.refused)
    assert (stored.candidate_rows, stored.rows, stored.warnings) == (
        in_memory.candidate_rows,
        in_memory.rows,
        in_memory.warnings,
    )
    assert judge(stored) == judge(in_memory)
    assert list(map(str, log_lines(redact(stored), width=100))) == list(
        map(str, log_lines(redact(in_memory), width=100))
    )
    for exporter in EXPORTERS.values():
        written = io.BytesIO(), io.BytesIO()
        exporter.write([stored], written[0])
        exporter.write([in_memory], written[1])
        assert written[0].getvalue() == written[1].getvalue()


def test_parts_of_a_stored_log() -> None:
    stored, tables = in_file(FILES[0]).tables, readers.read(FILES[0]).tables
    assert (stored[0], stored[-1], stored[1:3], stored[::-1]) == (tables[0], tables[-1], tables[1:3], tables[::-1])
    with pytest.raises(IndexError):
        stored[len(tables)]


def test_tables_of_many_extents_are_read_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_tables, "_EXTENT_BYTES", 5000)
    path = tmp_path / "log.txt"
    path.write_text("".join(HEAD + COLUMNS + ROW * number for number in range(1, 41)))
    log, in_memory = in_file(path), readers.read(path)
    assert len(log.tables) == 40
    order = [39, 0, *range(40), *range(39, -1, -3)]
    assert [log.tables[number] for number in order] == [in_memory.tables[number] for number in order]


def test_rows_are_read_only_if_they_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.txt"
    path.write_text(TABLE * 3)
    log = in_file(path)
    monkeypatch.setattr(PlainColumns, "rows", lambda *_: pytest.fail("a row was made"))
    assert log.row_count == 3 * 31
    assert [table.first_line for table in log.tables] == [1, 35, 69]


def test_a_comparison_reads_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = "#  Rank {0} Group 0 Pid 8 on vm device {0} [0000:0{0}:00] NVIDIA H200\n"
    devices = "".join(map(device.format, range(4)))
    path = tmp_path / "log.txt"
    path.write_text(TABLE.replace(COLUMNS, devices + COLUMNS) * 3)
    log = in_file(path)
    made: list[int] = []
    make_rows = PlainColumns.rows

    def make_and_count(self: PlainColumns, *arguments: Any) -> Iterator[Row]:
        made.extend(self.lines)
        return make_rows(self, *arguments)

    monkeypatch.setattr(PlainColumns, "rows", make_and_count)
    compare_logs(log, log)
    assert len(made) == 2 * 3 * 31


@pytest.mark.parametrize(
    ("change", "is_plain"),
    [("", True), ("0", True), (" 3", False), (" N/A", False), (" x", True)],
    ids=["plain", "another time", "wrong elements", "not checked", "refused"],
)
def test_a_table_is_stored_compactly_if_all_its_rows_are_plain(change: str, is_plain: bool, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    other = ROW.replace(" 0\n", f"{change}\n") if change.startswith(" ") else ROW.replace("21.00", f"21.00{change}")
    path.write_text(HEAD + COLUMNS + ROW * 3 + other + ROW * 3)
    (chunk,) = (event for event in readers.stream(path) if isinstance(event, TableChunk))
    assert isinstance(chunk.table.rows, PlainRows) == is_plain
    assert tuple(in_file(path).tables) == readers.read(path).tables
    (table,) = readers.read(path).tables
    assert chunk.table.rows == table.rows
    assert [row.line for row in table.rows] == [line for line in range(3, 10) if line != 6 or change != " x"]


def test_a_long_table_has_plain_and_other_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "CHUNK_ROWS", 10)
    monkeypatch.setattr(uniform_row_reader, "_MAX_ROWS", 5)
    monkeypatch.setattr(stored_tables, "_MAX_ROWS", 20)
    path = tmp_path / "log.txt"
    not_checked = ROW.replace(" 0\n", " N/A\n")
    path.write_text(HEAD + COLUMNS + ROW * 13 + not_checked + ROW * 21)
    chunks = [event.table.rows for event in readers.stream(path) if isinstance(event, TableChunk)]
    assert [isinstance(rows, PlainRows) for rows in chunks] == [True, False, True, True]
    rows, expected = in_file(path).tables[0].rows, readers.read(path).tables[0].rows
    assert not isinstance(rows, tuple)
    assert tuple(rows) == expected
    assert [rows[index] for index in range(-35, 35)] == [expected[index] for index in range(-35, 35)]
    assert rows[8:22] == expected[8:22]


OTHER_ROW = "1048576 262144 float none 0" + 2 * " 20.00 52.43 52.43 0" + "\n"
OTHER_TABLE = HEAD + COLUMNS + OTHER_ROW * 12 + "# Avg bus bandwidth    : 52.43\n"


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("row_count", [10, 11])
def test_a_row_that_is_refused_after_a_chunk_does_not_remove_the_end_of_its_table(
    is_stored: bool, row_count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "CHUNK_ROWS", 10)
    path = tmp_path / "log.txt"
    wrapped = "262144 65536 float sum -1 21.00 12.48 18.72 0\n 21.00 12.48 18.72 0\n"
    path.write_text(ROW * row_count + wrapped + OTHER_TABLE)
    assert [event.is_last for event in readers.stream(path) if isinstance(event, TableChunk)].count(True) == 2
    log = in_file(path) if is_stored else readers.read(path)
    assert [len(table.rows) for table in log.tables] == [row_count, 12]
    assert [refusal.line for refusal in log.refused] == [row_count + 1]


def test_rows_above_their_header_that_fill_a_chunk_are_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a log that is newest first, only the rows that are not interpreted yet are refused."""
    monkeypatch.setattr(assembly, "CHUNK_ROWS", 10)
    path = tmp_path / "log.txt"
    units = "# (B) (elements)" + 2 * " (us) (GB/s) (GB/s)" + "\n"
    path.write_text(ROW.replace(" 0\n", " N/A\n") * 11 + units + OTHER_TABLE)
    assert [event.is_last for event in readers.stream(path) if isinstance(event, TableChunk)].count(True) == 2
    log = readers.read(path)
    assert [len(table.rows) for table in log.tables] == [10, 12]
    assert [refusal.line for refusal in log.refused] == [11]


def test_rows_with_many_samples_are_stored_earlier() -> None:
    """A row of a large job has thousands of samples, which take more memory than all its other fields."""
    samples_us = tuple((1.0,) * 100 for _ in range(64))
    small = Row(line=1, size_bytes=8, figures={"out_of_place": Figure(time_us=1)})
    large = Row(line=1, size_bytes=8, figures={"out_of_place": Figure(time_us=1, samples_us=samples_us)})
    for row, is_stored in ((small, False), (large, True)):
        log = collect("log", [TableChunk(Table(format="a test", rows=(row,) * 10))], max_items_in_memory=1000)
        assert isinstance(log.tables, StoredTables) == is_stored
        assert log.tables[0].rows == (row,) * 10


MEASURE = r"""
import io, re, sys
from pathlib import Path
from busbw import readers
from busbw.exporters import EXPORTERS
from busbw.judge.series import series_of_table
from busbw.readers.documents import table_builder
from busbw.readers.tables import assembly, stored_tables
class Nowhere(io.RawIOBase):
    def writable(self): return True
    def write(self, data): return len(data)
path, task = Path(sys.argv[1]), sys.argv[2]
stored_tables._MAX_ROWS = 100
assembly.CHUNK_ROWS = table_builder.CHUNK_ROWS = 1000
log = readers.collect(str(path), readers.stream(path), max_items_in_memory=1000)
if task == "series":
    count = sum(len(series_of_table(table)) for table in log.tables)
else:
    EXPORTERS[task].write([log], Nowhere())
# Unlike ru_maxrss, this peak does not include that of the parent process.
print(log.row_count, *re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text()))
"""


def memory_mib(path: Path, task: str) -> tuple[int, float]:
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path), task], capture_output=True, text=True, check=True)
    rows, peak_kib = done.stdout.split()
    return int(rows), int(peak_kib) / 1024


@pytest.mark.parametrize(
    ("beginning", "part", "rows_of_part", "task"),
    [
        ("", TABLE, 31, "csv"),
        ("", TABLE, 31, "json"),
        ("", TABLE, 31, "junit"),
        (HEAD + COLUMNS, ROW * 31, 31, "series"),
        ('{"version":3,"results":[\n', JSON_ROW * 31, 31, "csv"),
    ],
)
def test_memory_does_not_grow_with_the_log(
    beginning: str, part: str, rows_of_part: int, task: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.txt"
    peaks_mib = []
    for count in (150, 600):
        path.write_text(beginning + part * count)
        rows, peak_mib = memory_mib(path, task)
        assert rows == count * rows_of_part
        peaks_mib.append(peak_mib)
    # The 13,950 rows more take 16 MiB in memory.
    assert peaks_mib[1] - peaks_mib[0] < 5
