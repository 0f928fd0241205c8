"""Reads JSON of nccl-tests (-J), rccl-tests and ubx_bench, even if it is cut off or invalid.

nccl-tests' format 3 has its own reader, nccl_tests_json.py. Its predecessor, the format before 3, is read here.
rccl-tests writes one object per line or one list; the others write one object.
"""

import math
import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from busbw.logs.log import Placement, Refusal
from busbw.readers.documents import nccl_tests_json, tolerant_json
from busbw.readers.documents.json_rows import JsonRows
from busbw.readers.documents.table_builder import RowFields, TableBuilder
from busbw.readers.lines.source import LogSource
from busbw.readers.tables.events import Event, LogNote, UserClaims
from busbw.readers.tables.facts import TableFacts
from busbw.readers.tables.layouts import PlacementText
from busbw.readers.wrappers import cleaning
from busbw.readers.wrappers.anchors import find_anchor

_PREDECESSOR_KEYS: dict[Placement, tuple[str, ...]] = {
    "out_of_place": ("oop_time", "oop_algbw", "oop_busbw", "oop_error"),
    "in_place": ("ip_time", "ip_algbw", "ip_busbw", "ip_error"),
}
_KEYS = re.compile(r'"(?:results|algBw|oop_time|out_of_place|busbw_gbs)"')


def recognizes(beginning: str) -> bool:
    """True if the text begins with a bracket, has a key of one of the formats, and holds no line of a text table."""
    return (
        beginning.lstrip("\ufeff \t\r\n")[:1] in ("{", "[")
        and bool(_KEYS.search(beginning) or '"version"' in beginning[:200])
        and find_anchor(beginning) is None
        and find_anchor(cleaning.without_markup(beginning)) is None
    )


def stream(source: LogSource, claims: UserClaims) -> Iterator[Event]:
    """Yields the tables, refused rows and notes of the file.

    Raises:
        UsageError: The tolerant parser rejects the document, or it has a newer version.
    """
    if _has_object_per_line(source.beginning.partition(b"\n")[0]):
        yield from _read_rccl_tests(_decode_lines(source.lines()), source.name, claims)
        return
    rows = JsonRows(source)  # the containers in the list of rows; `document` has all other values
    document = tolerant_json.decode_part(rows.read_rest(), source.name)
    if isinstance(document, list):
        decoded_rows = ((line, value) for _, line, value in _decode_rows(rows, document, source.name))
        yield from _read_rccl_tests(decoded_rows, source.name, claims)
    elif isinstance(document, dict) and isinstance(document.get("results"), dict):
        lists = [values for values in document["results"].values() if isinstance(values, list)]
        others = list(chain.from_iterable(lists))
        yield from _read_ubx_bench(document, _decode_rows(rows, others, source.name), source.name, claims)
    elif isinstance(document, dict) and isinstance(document.get("results"), list):
        yield from nccl_tests_json.stream(document, rows, source.name, claims)
    elif isinstance(document, dict) and tolerant_json.CUT in document and "version" in document:
        yield LogNote("the document ends before its first row; the run was killed")
    elif isinstance(document, dict):
        yield from _read_predecessor(document, source.name, claims)
    if following := rows.next_document:
        yield Refusal(
            line=following.line,
            text=following.text.decode("utf-8", errors="replace"),
            reason="another document begins here; put each document into a file of its own",
        )


def _decode_rows(rows: JsonRows, others: list[Any], name: str) -> Iterator[tuple[str, int, Any]]:
    """Yields the key, the line and the value of each row. `others`: elements of the list that are not containers."""
    for row in rows:
        yield row.key, row.line, tolerant_json.decode_part(row.text, name)
    for value in others:
        yield "", 1, value


def _has_object_per_line(line: bytes) -> bool:
    """True if the first line is an object of rccl-tests, so that each line has its own."""
    return line.lstrip().startswith(b"{") and b'"algBw"' in line


def _decode_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, Any]]:
    """Yields the line number and the object of each line. The object is None if it is malformed."""
    for number, line in enumerate(lines, start=1):
        text = line.strip().rstrip(b",")
        if text:
            try:
                yield number, tolerant_json.decode(text)
            except tolerant_json.MalformedJsonError:
                yield number, None


def _printed_text(value: Any) -> str:
    """Returns a value as printed text; "N/A" for null, objects, nan and inf."""
    if value is None or isinstance(value, (dict, list)):
        return "N/A"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "N/A"
    return str(value).strip()


def _json_text(row: dict[str, Any], _placement: Placement) -> str:
    return msgspec.json.encode(row).decode()


def _figure_texts(row: dict[str, Any], keys: tuple[str, ...]) -> PlacementText:
    time, algbw, busbw, wrong = (_printed_text(row.get(key)) for key in keys)
    return PlacementText(time, algbw, busbw, wrong)


def _make_fields(
    line: int,
    row: dict[str, Any],
    *,
    size: str,
    keys: dict[str, str],
    figure_texts: dict[Placement, PlacementText],
    ranks: object = None,
    **fields: Any,
) -> RowFields:
    """Returns the row of an object. `keys` are those of the object, by the field of `RowFields`."""
    fields |= {field: _printed_text(row.get(key, "")) for field, key in keys.items()}
    return RowFields(
        line=line,
        format_text=partial(_json_text, row),
        size=size,
        figure_texts=figure_texts,
        ranks=ranks if isinstance(ranks, int) and ranks > 0 else None,
        **fields,
    )


def _refuse_incomplete(line: int, row: object) -> Refusal:
    return Refusal(line=line, text=str(row)[:300], reason="the row is incomplete")


def _read_rccl_tests(rows: Iterable[tuple[int, Any]], source: str, claims: UserClaims) -> Iterator[Event]:
    """Reads rccl-tests' objects, each with its line number. Each is one placement of one row."""
    tables = TableBuilder("rccl-tests JSON", TableFacts(), claims, source)
    for line, row in rows:
        if not isinstance(row, dict) or tolerant_json.CUT in row or "size" not in row:
            yield _refuse_incomplete(line, row)
            continue
        placement: Placement = "in_place" if _printed_text(row.get("inPlace")) in ("1", "True") else "out_of_place"
        fields = _make_fields(
            line,
            row,
            size=_printed_text(row["size"]),
            keys={"name": "name", "dtype": "type", "redop": "redop", "cycle": "numCycle"},
            figure_texts={placement: _figure_texts(row, ("time", "algBw", "busBw", "#wrong"))},
            ranks=row.get("ranks", row.get("gpus")),
        )
        yield from tables.add(fields)
    yield from tables.end_table()


def _read_ubx_bench(
    document: dict[str, Any], rows: Iterable[tuple[str, int, Any]], source: str, claims: UserClaims
) -> Iterator[Event]:
    """Reads ubx_bench's rows, each with its backend and its line number. A table has the rows of one backend."""
    tables = TableBuilder("ubx_bench JSON", TableFacts(), claims, source)
    for backend, line, row in rows:
        if not isinstance(row, dict) or tolerant_json.CUT in row:
            yield _refuse_incomplete(line, row)
            continue
        fields = _make_fields(
            line,
            row,
            size=_printed_text(row.get("size_bytes")),
            keys={"elements": "count", "dtype": "dtype", "redop": "redop"},
            figure_texts={"unstated": _figure_texts(row, ("time_us", "algbw_gbs", "busbw_gbs", "errors"))},
            ranks=document.get("nranks"),
            name=_printed_text(document.get("collective", "")),
            variant=backend[:100],
        )
        yield from tables.add(fields)
    yield from tables.end_table()


def _read_predecessor(document: dict[str, Any], source: str, claims: UserClaims) -> Iterator[Event]:
    """Reads nccl-tests' format before 3: one object per size, with oop_ and ip_ figures."""
    tables = TableBuilder("nccl-tests JSON, before format 3", TableFacts(), claims, source)
    for size, row in _find_rows_with_size(document):
        if tolerant_json.CUT in row:
            yield _refuse_incomplete(1, row)
            continue
        fields = _make_fields(
            1,
            row,
            size=size,
            keys={"elements": "count", "redop": "redop", "root": "root", "dtype": "type"},
            figure_texts={placement: _figure_texts(row, keys) for placement, keys in _PREDECESSOR_KEYS.items()},
        )
        yield from tables.add(fields)
    yield from tables.end_table()


def _find_rows_with_size(value: Any, depth: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields every object with oop_ figures and its size, which is a field of the object or its key."""
    if isinstance(value, dict) and depth < 5:
        for key, child in value.items():
            if isinstance(child, dict) and "oop_time" in child:
                yield _printed_text(child.get("size", key)), child
            else:
                yield from _find_rows_with_size(child, depth + 1)
    elif isinstance(value, list) and depth < 5:
        for child in value:
            if isinstance(child, dict) and "oop_time" in child:
                yield _printed_text(child.get("size")), child
