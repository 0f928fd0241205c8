"""Fast parser for uniform rows of nccl-tests' JSON: both placements checked and right, without further fields.

tables/uniform_rows.py explains the purpose of fast parsers. All rows of a block are decoded at once.
"""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import msgspec

from busbw.logs.plain_rows import FigureColumns
from busbw.readers.documents.json_rows import JsonRow
from busbw.readers.documents.table_builder import RowFields, make_raw_row
from busbw.readers.tables.layouts import RawRow
from busbw.readers.tables.quantities import DTYPES, REDOPS
from busbw.readers.tables.uniform_rows import UniformFigures, UniformRows

_DECIMALS = 6
"""Decimals that nccl-tests prints. Figures are rounded to them, as in their texts for the full parser."""
_HALF_STEP = 0.5 * 10.0**-_DECIMALS
_NEGATIVE_ZERO = re.compile(rb":\s*-0")
"""-0.0 is not less than 0, but the full parser refuses it."""

_Count = Annotated[int, msgspec.Meta(ge=0, lt=10**18)]
_Number = Annotated[float, msgspec.Meta(ge=0, lt=10**15)]


class _Figures(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    time: _Number
    alg_bw: _Number
    bus_bw: _Number
    nwrong: Literal[0]


class _Row(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    size: _Count
    count: _Count
    type: str
    redop: str
    root: Annotated[int, msgspec.Meta(ge=-1, lt=10**9)]
    out_of_place: _Figures
    in_place: _Figures


_DECODER = msgspec.json.Decoder(list[_Row])


class _UniformJsonRows(UniformRows, frozen=True, gc=False):
    """Uniform rows of a document."""

    rows: list[JsonRow]
    make_fields: Callable[[JsonRow], RowFields]
    """Parses a row on its own."""

    def _parse_part(self, part: slice) -> UniformRows | None:
        return parse_uniform_json_rows(self.rows[part], self.make_fields)

    def raw_row(self, index: int) -> RawRow:
        return make_raw_row(self.make_fields(self.rows[index]))


def parse_uniform_json_rows(rows: list[JsonRow], make_fields: Callable[[JsonRow], RowFields]) -> UniformRows | None:
    """Parses consecutive rows. Returns None if one of them is not uniform. `make_fields` parses a row on its own."""
    text = b"[%b]" % b",".join([row.text for row in rows])
    if _NEGATIVE_ZERO.search(text):
        return None
    try:
        decoded = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    dtypes = [DTYPES.get(row.type) for row in decoded]
    known_dtypes = [dtype for dtype in dtypes if dtype]
    if len(known_dtypes) != len(rows):
        return None
    redops = [row.redop.strip() for row in decoded]
    return _UniformJsonRows(
        [row.line for row in rows],
        [row.size for row in decoded],
        [row.count for row in decoded],
        known_dtypes,
        [redop if redop in REDOPS and redop != "none" else None for redop in redops],
        [None if row.root < 0 else row.root for row in decoded],
        [0] * len(rows),
        _make_placement([row.out_of_place for row in decoded]),
        _make_placement([row.in_place for row in decoded]),
        [f"{row.out_of_place.bus_bw:.{_DECIMALS}f}" for row in decoded],
        rows,
        make_fields,
    )


def _make_placement(figures: Sequence[_Figures]) -> UniformFigures:
    columns = FigureColumns(
        [round(figure.time, _DECIMALS) for figure in figures],
        [round(figure.alg_bw, _DECIMALS) for figure in figures],
        [round(figure.bus_bw, _DECIMALS) for figure in figures],
    )
    return UniformFigures(columns, [_HALF_STEP] * len(figures), _HALF_STEP)
