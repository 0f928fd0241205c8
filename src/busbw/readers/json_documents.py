"""Reads JSON of nccl-tests' -J (format 3, even if cut off or invalid), its predecessor, rccl-tests and ubx_bench."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from busbw.errors import UsageError
from busbw.logs import Placement, Refusal
from busbw.readers import nccl_tests_json, tolerant_json
from busbw.readers.flat import FlatPlacement, FlatTableBuilder
from busbw.readers.source import LogSource
from busbw.readers.tables.events import Event, LogNote, UserClaims
from busbw.readers.tables.headers import TableFacts
from busbw.readers.tables.layouts import PlacementText

MAX_BYTES = 256 << 20
_PREFIXES: dict[Placement, str] = {"out_of_place": "oop_", "in_place": "ip_"}
_KEYS = re.compile(r'"(?:results|algBw|oop_time|out_of_place|busbw_gbs)"')


def recognises(beginning: str) -> bool:
    """True if the text begins with a bracket and has a key of one of the formats."""
    return beginning.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") and bool(
        _KEYS.search(beginning) or '"version"' in beginning[:200]
    )


def stream(source: LogSource, claims: UserClaims) -> Iterator[Event]:
    """Yields all rows.

    Raises:
        UsageError: The tolerant parser rejects the document, or it has another version.
    """
    lines = source.lines()
    if _is_fragments(next(lines, b"")):
        yield from _rccl(_fragments(source.lines()), source.name, claims)
        return
    data = source.whole(MAX_BYTES)
    try:
        document = tolerant_json.decode(data)
    except tolerant_json.MalformedJsonError as error:
        raise UsageError(
            f"{source.name} is not valid JSON: {error}", remedy="pass the file unchanged, as the program wrote it"
        ) from error
    if isinstance(document, list):
        yield from _rccl(((1, row) for row in document), source.name, claims)
    elif isinstance(document, dict) and isinstance(document.get("results"), dict):
        yield from _ubx(document, source.name, claims)
    elif isinstance(document, dict) and isinstance(document.get("results"), list):
        yield from nccl_tests_json.stream(document, data, source.name, claims)
    elif isinstance(document, dict) and tolerant_json.CUT in document and "version" in document:
        yield LogNote("the document ends before its first row; the run was killed")
    elif isinstance(document, dict):
        yield from _by_size(document, source.name, claims)


def _is_fragments(line: bytes) -> bool:
    return line.lstrip().startswith(b"{") and b'"algBw"' in line


def _fragments(lines: Iterable[bytes]) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, start=1):
        text = line.strip().rstrip(b",")
        if text:
            try:
                yield number, tolerant_json.decode(text)
            except tolerant_json.MalformedJsonError:
                yield number, None


def text_of(value: Any) -> str:
    """Returns a value as printed text; "N/A" for null, objects, nan and inf."""
    if value is None or isinstance(value, (dict, list)):
        return "N/A"
    if isinstance(value, float):
        return repr(value) if value == value and abs(value) != float("inf") else "N/A"
    return str(value).strip()


def _side(row: dict[str, Any], keys: tuple[str, ...]) -> PlacementText:
    time, algbw, busbw, wrong = (text_of(row.get(key)) for key in keys)
    return PlacementText(time, algbw, busbw, wrong)


def _rccl(rows: Iterable[tuple[int, Any]], source: str, claims: UserClaims) -> Iterator[Event]:
    tables = FlatTableBuilder("rccl-tests JSON", TableFacts(), claims, source)
    for line, row in rows:
        if not isinstance(row, dict) or tolerant_json.CUT in row or "size" not in row:
            yield Refusal(line=line, text=str(row)[:300], reason="the row is incomplete")
            continue
        placement: Placement = "in_place" if text_of(row.get("inPlace")) in ("1", "True") else "out_of_place"
        gpus = row.get("ranks", row.get("gpus"))
        yield from tables.add(
            FlatPlacement(
                line=line,
                text=msgspec.json.encode(row).decode(),
                size=text_of(row["size"]),
                side=_side(row, ("time", "algBw", "busBw", "#wrong")),
                placement=placement,
                name=text_of(row.get("name", "")),
                dtype=text_of(row.get("type", "")),
                redop=text_of(row.get("redop", "")),
                cycle=text_of(row.get("numCycle", 0)),
                ranks=gpus if isinstance(gpus, int) and gpus > 0 else None,
            )
        )
    yield from tables.end()


def _ubx(document: dict[str, Any], source: str, claims: UserClaims) -> Iterator[Event]:
    ranks = document.get("nranks")
    for backend, rows in document["results"].items():
        tables = FlatTableBuilder("ubx_bench JSON", TableFacts(), claims, source)
        for row in rows if isinstance(rows, list) else []:
            if not isinstance(row, dict) or tolerant_json.CUT in row:
                yield Refusal(line=1, text=str(row)[:300], reason="the row is incomplete")
                continue
            yield from tables.add(
                FlatPlacement(
                    line=1,
                    text=msgspec.json.encode(row).decode(),
                    size=text_of(row.get("size_bytes")),
                    side=_side(row, ("time_us", "algbw_gbs", "busbw_gbs", "errors")),
                    name=text_of(document.get("collective", "")),
                    elements=text_of(row.get("count", "")),
                    dtype=text_of(row.get("dtype", "")),
                    redop=text_of(row.get("redop", "")),
                    ranks=ranks if isinstance(ranks, int) and ranks > 0 else None,
                    variant=str(backend)[:100],
                )
            )
        yield from tables.end()


def _by_size(document: dict[str, Any], source: str, claims: UserClaims) -> Iterator[Event]:
    """Reads the predecessor of -J: one object per size, with oop_ and ip_ figures."""
    tables = FlatTableBuilder("nccl-tests JSON, before format 3", TableFacts(), claims, source)
    for size, row in _sized(document):
        if tolerant_json.CUT in row:
            yield Refusal(line=1, text=str(row)[:300], reason="the row is incomplete")
            continue
        for placement, prefix in _PREFIXES.items():
            keys = tuple(f"{prefix}{key}" for key in ("time", "algbw", "busbw", "error"))
            yield from tables.add(
                FlatPlacement(
                    line=1,
                    text=msgspec.json.encode(row).decode(),
                    size=size,
                    side=_side(row, keys),
                    placement=placement,
                    elements=text_of(row.get("count", "")),
                    redop=text_of(row.get("redop", "")),
                    root=text_of(row.get("root", "")),
                    dtype=text_of(row.get("type", "")),
                )
            )
    yield from tables.end()


def _sized(value: Any, depth: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields every object with oop_ figures and its size, which is a field of the object or its key."""
    if isinstance(value, dict) and depth < 5:
        for key, child in value.items():
            if isinstance(child, dict) and "oop_time" in child:
                yield text_of(child.get("size", key)), child
            else:
                yield from _sized(child, depth + 1)
    elif isinstance(value, list) and depth < 5:
        for child in value:
            if isinstance(child, dict) and "oop_time" in child:
                yield text_of(child.get("size")), child
