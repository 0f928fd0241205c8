"""Two readers of nccl-tests' table, as people write them: neither knows anything about who printed it."""

import re
from dataclasses import dataclass

from .programs import Finished

# In place their result is not defined, and nccl-tests shows N/A as #wrong.
UNCHECKED_IN_PLACE = {"alltoall", "alltoallv", "sendrecv"}

NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]\d+)?)"
WRONG = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?|N/A)"
SIDE = rf"\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}\s+{WRONG}"
# size count type redop root, then time algbw busbw #wrong out of place and in place. The redop may be blank.
ROW = re.compile(rf"^\s*(\d+)\s+(\d+)\s+(\w+)\s+(\w*)\s+(-?\d+){SIDE}{SIDE}\s*$")


@dataclass(frozen=True)
class Side:
    time_us: float
    algbw_gbps: float
    busbw_gbps: float
    wrong: float | None  # None: N/A


@dataclass(frozen=True)
class TableRow:
    size_bytes: int
    count: int
    dtype: str
    redop: str
    root: int
    out_of_place: Side
    in_place: Side


def side(columns: list[str]) -> Side:
    time, algbw, busbw, wrong = columns
    return Side(float(time), float(algbw), float(busbw), None if wrong == "N/A" else float(wrong))


def rows_by_pattern(text: str) -> list[TableRow]:
    """Thirteen columns by a regular expression; every line that is not a comment must be a row."""
    rows = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = ROW.match(line)
        assert found, f"not a row: {line!r}"
        size, count, dtype, redop, root, *rest = found.groups()
        rows.append(TableRow(int(size), int(count), dtype, redop, int(root), side(rest[:4]), side(rest[4:])))
    return rows


def rows_by_blanks(text: str) -> list[list[str]]:
    """Words between blanks of all lines that start with a number."""
    return [line.split() for line in text.splitlines() if line.strip() and line.split()[0].isdigit()]


def footer(text: str) -> dict[str, str]:
    """The two lines that everybody greps for."""
    return dict(re.findall(r"^# (Out of bounds values|Avg bus bandwidth)\s*: (.*)$", text, flags=re.MULTILINE))


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
    """True if a column shows `value`, rounded to its own decimals."""
    last_place = 0.1 ** len(text.partition(".")[2])
    return abs(float(text) - value) <= 0.5000001 * last_place
