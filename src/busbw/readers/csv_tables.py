"""Reads CSV of rccl-tests (one line per placement) and of AWS's converter for nccl-tests logs (one line per row)."""

import csv
import re
from collections.abc import Iterable, Iterator

from busbw.logs import Placement
from busbw.readers.flat import FlatPlacement, FlatTableBuilder
from busbw.readers.source import LogSource
from busbw.readers.tables.events import Event, UserClaims
from busbw.readers.tables.headers import TableFacts
from busbw.readers.tables.layouts import BOTH, PlacementText

_SIZES = ("size", "size_bytes", "sizebytes")
_SIDES: dict[Placement, str] = {"out_of_place": "oop_", "in_place": "ip_", "unstated": ""}
_FIGURES = {
    "time": ("time", "time_us", "timeus"),
    "algbw": ("algbw", "algbw_gbps", "algbw_gb_s", "algbw_gbs"),
    "busbw": ("busbw", "busbw_gbps", "busbw_gb_s", "busbw_gbs"),
    "wrong": ("wrong", "errors", "wrong_elements"),
}
_OTHERS = {
    "name": ("name", "collective", "test"),
    "elements": ("count", "count_elems"),
    "dtype": ("type", "dtype", "data_type", "datatype"),
    "redop": ("redop", "operation", "op"),
    "root": ("root",),
    "cycle": ("numcycle", "cycle"),
}


def recognises(beginning: str) -> bool:
    """True if the first line has comma-separated names that include a size and a bus bandwidth."""
    header = _names(beginning.partition("\n")[0])
    return bool(set(header) & set(_SIZES)) and any(
        name.endswith(("busbw", "busbw_gbps", "busbw_gbs")) for name in header
    )


def _names(line: str) -> list[str]:
    if "," not in line:
        return []
    try:
        words = next(csv.reader([line]), [])
    except csv.Error:
        return []
    return [re.sub(r"[^a-z0-9_]+", "_", word.strip("\ufeff ").lower()).strip("_") for word in words]


def stream(source: LogSource, claims: UserClaims) -> Iterator[Event]:
    """Yields all rows of the file."""
    lines = _texts(source.lines())
    header = _names(next(lines, ""))
    is_aws = any(name.startswith("oop_") for name in header)
    is_rccl = "numcycle" in header or "inplace" in header
    name = "nccl-tests CSV (AWS)" if is_aws else "rccl-tests CSV" if is_rccl else "CSV"
    tables = FlatTableBuilder(name, TableFacts(), claims, source.name)
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        try:
            cells = next(csv.reader([line]), [])
        except csv.Error:
            cells = []
        values = dict(zip(header, (cell.strip() for cell in cells), strict=False))
        for flat in _flats(number, line.strip(), values, is_aws):
            yield from tables.add(flat)
    yield from tables.end()


def _texts(lines: Iterable[bytes]) -> Iterator[str]:
    for line in lines:
        yield line.decode("utf-8", errors="replace").replace("\0", "")


def _flats(number: int, line: str, values: dict[str, str], is_aws: bool) -> Iterator[FlatPlacement]:
    others = {field: _first(values, names) for field, names in _OTHERS.items()}
    ranks = _first(values, ("ranks",)) or _first(values, ("gpus",))
    placements: tuple[Placement, ...] = BOTH if is_aws else (_placement(values),)
    for placement in placements:
        prefix = _SIDES[placement] if is_aws else ""
        words = {field: _first(values, tuple(prefix + name for name in names)) for field, names in _FIGURES.items()}
        yield FlatPlacement(
            line=number,
            text=line,
            size=_first(values, _SIZES),
            side=PlacementText(
                words["time"] or "N/A", words["algbw"] or "N/A", words["busbw"] or "N/A", words["wrong"]
            ),
            placement=placement,
            ranks=int(ranks) if ranks.isdecimal() and 0 < len(ranks) < 8 else None,
            name=others["name"],
            elements=others["elements"],
            dtype=others["dtype"],
            redop=others["redop"],
            root=others["root"],
            cycle=others["cycle"] or "0",
        )


def _placement(values: dict[str, str]) -> Placement:
    word = _first(values, ("inplace", "in_place", "placement")).lower()
    if word in ("1", "true", "in_place"):
        return "in_place"
    return "out_of_place" if word in ("0", "false", "out_of_place") else "unstated"


def _first(values: dict[str, str], names: tuple[str, ...]) -> str:
    return next((values[name] for name in names if values.get(name)), "")
