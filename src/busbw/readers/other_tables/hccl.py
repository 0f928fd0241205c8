"""Reads reports of Habana's hccl_demo in a text log: a line with the operation, followed by two bandwidths.

hccl_demo calls algbw "Algo Bandwidth" and busbw "NW Bandwidth". clean_line_reader.py passes each line that may
belong to a report.
"""

import re

from busbw.logs.log import Figure, Row, Table
from busbw.readers.tables import collectives
from busbw.readers.tables.events import Event, TableChunk, UserClaims
from busbw.readers.tables.quantities import DTYPES, ELEMENT_BYTES, parse_integer

_OPERATION = re.compile(r"\[BENCHMARK\] hccl(\w+)\(([^()]*)\)")
_BANDWIDTH = re.compile(r"\[BENCHMARK\]\s+(NW|Algo) Bandwidth\s*:\s*(\d+(?:\.\d+)?) GB/s")


class ReportParser:
    """Parses one report at a time. Each becomes a table of one row."""

    def __init__(self, claims: UserClaims) -> None:
        self._claims = claims
        self._line = 0
        self._name = ""
        """Operation of the open report. Empty if no report is open."""
        self._values: dict[str, str] = {}
        self._bandwidths: dict[str, float] = {}

    def add_line(self, line: int, text: str) -> Event | None:
        """Adds a line. Returns the report as a table if the line completes it, and None otherwise."""
        if "[BENCHMARK]" not in text:
            return None
        if match := _OPERATION.search(text):
            self._line, self._name, self._bandwidths = line, match[1], {}
            pairs = (part.partition("=") for part in match[2].split(","))
            self._values = {key.strip(): value.strip() for key, _, value in pairs}
        elif self._name and (match := _BANDWIDTH.search(text)):
            self._bandwidths[match[1]] = float(match[2])
            if len(self._bandwidths) == 2:
                return self._make_table()
        return None

    def _make_table(self) -> Event | None:
        name, self._name = self._name, ""
        dtype = DTYPES.get(self._values.get("dtype", ""))
        size_bytes = parse_integer(self._values.get("dataSize") or self._values.get("data_size") or "")
        count = parse_integer(self._values.get("count", ""))
        if size_bytes is None and count is not None and dtype:
            size_bytes = count * ELEMENT_BYTES[dtype]
        if size_bytes is None:
            return None
        collective = self._claims.collective or collectives.single_collective_in(name)
        algbw, busbw = self._bandwidths["Algo"], self._bandwidths["NW"]
        row = Row(
            line=self._line,
            collective=collective,
            size_bytes=size_bytes,
            count=count,
            dtype=dtype,
            figures={"unstated": Figure(algbw_gbps=algbw, busbw_gbps=busbw)},
        )
        return TableChunk(
            Table(
                format="hccl_demo text",
                first_line=self._line,
                program=f"hccl{name}",
                collective=collective,
                settings={key: value for key, value in self._values.items() if value},
                rows=(row,),
            )
        )
