"""Reads reports of Habana's hccl_demo: a line with the operation, followed by two bandwidths."""

import re

from busbw.logs import Figure, Row, Table
from busbw.readers.tables import collectives
from busbw.readers.tables.events import Event, TableChunk, UserClaims
from busbw.readers.tables.quantities import DTYPES, ELEMENT_BYTES

_OPERATION = re.compile(r"\[BENCHMARK\] hccl(\w+)\(([^)]*)\)")
_BANDWIDTH = re.compile(r"\[BENCHMARK\]\s+(NW|Algo) Bandwidth\s*:\s*(\d+(?:\.\d+)?) GB/s")


class ReportParser:
    """Parses one report at a time. Each becomes a table of one row."""

    def __init__(self, claims: UserClaims) -> None:
        self._claims = claims
        self._line = 0
        self._name = ""
        self._values: dict[str, str] = {}
        self._bandwidths: dict[str, float] = {}

    def take(self, line: int, text: str) -> Event | None:
        """Adds a line. Returns the report if the line completes it."""
        if "[BENCHMARK]" not in text:
            return None
        if found := _OPERATION.search(text):
            self._line, self._name, self._bandwidths = line, found[1], {}
            pairs = (part.partition("=") for part in found[2].split(","))
            self._values = {key.strip(): value.strip() for key, _, value in pairs}
        elif self._name and (found := _BANDWIDTH.search(text)):
            self._bandwidths[found[1]] = float(found[2])
            if len(self._bandwidths) == 2:
                return self._report()
        return None

    def _report(self) -> Event | None:
        name, self._name = self._name, ""
        dtype = DTYPES.get(self._values.get("dtype", ""))
        size = self._values.get("dataSize") or self._values.get("data_size") or ""
        count = self._values.get("count", "")
        if not size.isdigit() and count.isdigit() and dtype:
            size = str(int(count) * ELEMENT_BYTES[dtype])
        if not size.isdigit() or len(size) > 18:
            return None
        collective = self._claims.collective or collectives.single_collective_in(name)
        algbw, busbw = self._bandwidths["Algo"], self._bandwidths["NW"]
        row = Row(
            line=self._line,
            collective=collective,
            size_bytes=int(size),
            count=int(count) if count.isdigit() and len(count) < 18 else None,
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
