"""No input crashes a reader, and none makes up a row: real logs with mutations, and bytes of all kinds."""

import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from busbw.errors import BusbwError
from busbw.logs.log import Log, Refusal
from busbw.readers import TableChunk, UserClaims, collect
from busbw.readers.documents import csv_tables, json_documents
from busbw.readers.lines.source import LogSource
from busbw.readers.text.text_logs import stream_lines

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
LOGS = [path.read_bytes() for path in sorted((GOLDEN / "seeds").iterdir())]
LOGS += [(GOLDEN / "nccl_tests_2_19_6_iter.txt").read_bytes(), (GOLDEN / "nccl_tests_2_19_6_nccl.txt").read_bytes()]
DOCUMENT = (GOLDEN / "logs" / "h200_x4_iter.json").read_bytes()
RELAXED = settings(deadline=None, max_examples=120, suppress_health_check=list(HealthCheck))


def read_text(data: bytes) -> Log:
    return collect("log", stream_lines(data.splitlines(keepends=True), "log", UserClaims()))


def numbers(text: bytes) -> set[str]:
    return set(re.findall(r"\d+(?:\.\d+)?|\.\d+", text.decode("utf-8", errors="replace")))


def demand_honesty(log: Log, data: bytes) -> None:
    """Each figure that is not derived stands in the data as it is, and rows are counted."""
    assert log.candidate_rows == len(log.rows) + len(log.refused)
    printed = {float(number) for number in numbers(data)}
    units = (1.0, 1e3, 1e6, 1e-3)
    for row in log.rows:
        for figure in row.figures.values():
            for name in ("algbw_gbps", "busbw_gbps"):
                value = getattr(figure, name)
                if value is not None and name not in figure.derived and value < 1e6:
                    assert value in printed, (row, name)
            if figure.time_us is not None and "time_us" not in figure.derived and figure.time_us < 1e6:
                assert any(abs(figure.time_us / unit - number) < 1e-9 for unit in units for number in printed), row


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A piece of a real log, with bytes dropped, doubled, exchanged, or written over."""
    log = draw(st.sampled_from(LOGS))
    lines = log.splitlines(keepends=True)
    begin = draw(st.integers(0, len(lines) - 1))
    data = bytearray(b"".join(lines[begin : begin + draw(st.integers(1, 60))]))
    for _ in range(draw(st.integers(0, 12))):
        if not data:
            break
        at = draw(st.integers(0, len(data) - 1))
        kind = draw(st.sampled_from(["drop", "double", "insert", "cut", "swap"]))
        if kind == "drop":
            del data[at : at + draw(st.integers(1, 30))]
        elif kind == "double":
            data[at:at] = data[at : at + draw(st.integers(1, 60))]
        elif kind == "insert":
            data[at:at] = draw(
                st.sampled_from([b"\n", b"\0", b"[0]", b"|", b"<table>", b"</td>", b"-", b"e9", b"nan", b"\xff", b"7"])
            )
        elif kind == "cut":
            del data[at:]
        else:
            data[at] = draw(st.integers(0, 255))
    return bytes(data)


@RELAXED
@given(mutated())
def test_mutated_logs(data: bytes) -> None:
    demand_honesty(read_text(data), data)


NUMBERS = [
    "8",
    "2",
    "1048576",
    "-1",
    "0",
    "N/A",
    "nan",
    "inf",
    "1e+99",
    "0.00",
    "4.82",
    "1e400",
    "99999999999999999999",
]
OTHERS = ["float", "half", "sum", "none", "\u00b2", "\u0663", "|", "#", "Rank", "Pid", "algbw", "busbw", "size", "time"]
MARKS = ["(us)", "<td>", "<tr>", "<table>", "</table>", "1MB", "1.80x", "Speedup", "Latency", "NCCL", "INFO", "[0]"]
WORDS = st.sampled_from([*NUMBERS, *OTHERS, *MARKS])


@RELAXED
@given(st.lists(st.lists(WORDS, max_size=24).map(" ".join), max_size=12).map("\n".join))
def test_words_of_logs_in_any_order(text: str) -> None:
    log = read_text(text.encode())
    assert log.candidate_rows == len(log.rows) + len(log.refused)


@RELAXED
@given(st.binary(max_size=2000))
def test_any_bytes(data: bytes) -> None:
    assert read_text(data).rows == ()


class Memory(LogSource):
    """A source that is no file."""

    def __init__(self, data: bytes) -> None:
        import io

        super().__init__("log", io.BytesIO(data))


@RELAXED
@given(
    st.integers(0, len(DOCUMENT)),
    st.lists(st.tuples(st.integers(0, len(DOCUMENT) - 1), st.integers(0, 255)), max_size=6),
)
def test_mutated_documents(end: int, changes: list[tuple[int, int]]) -> None:
    data = bytearray(DOCUMENT)
    for at, value in changes:
        data[at] = value
    events = []
    try:
        for event in json_documents.stream(Memory(bytes(data[:end])), UserClaims()):
            events.append(event)
    except BusbwError:
        pass
    rows = sum(len(event.table.rows) for event in events if isinstance(event, TableChunk))
    assert rows + sum(isinstance(event, Refusal) for event in events) <= 6 + len(changes)


CELLS = st.sampled_from(
    ["8", "1048576", "float", "sum", "0", "1", "10.0", "104.86", "157.29", "", "N/A", '"', "x", "-5", "1e999"]
)


@RELAXED
@given(st.lists(st.lists(CELLS, max_size=13).map(",".join), max_size=8))
def test_csv_of_anything(lines: list[str]) -> None:
    header = "numCycle,name,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inPlace,time,algBw,busBw,#wrong"
    data = "\n".join([header, *lines]).encode()
    log = collect("log", csv_tables.stream(Memory(data), UserClaims()))
    assert log.candidate_rows == len(log.rows) + len(log.refused)


@pytest.mark.parametrize("deep", [200, 20_000])
def test_deep_documents(deep: int) -> None:
    with pytest.raises(BusbwError, match="not valid JSON"):
        list(json_documents.stream(Memory(b'{"results":' + b"[" * deep), UserClaims()))


def test_an_endless_line() -> None:
    assert read_text(b"8 2 float sum -1 " + b"1 " * 200_000 + b"\n").rows == ()
    assert read_text(b"|" * 100_000).rows == ()
    assert read_text(b"<table>" + b"<td>" * 50_000).rows == ()
    assert read_text(b"[1,0]<stdout>:" * 20_000).rows == ()


def test_long_remarks_are_not_kept() -> None:
    """The form of short remarks is remembered, because logs repeat them."""
    lines = (f"# {number} {'x' * 100_000}\n".encode() for number in range(200))
    tracemalloc.start()
    try:
        for _ in stream_lines(lines, "log", UserClaims()):
            pass
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 2_000_000
