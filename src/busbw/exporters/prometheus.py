"""Prometheus text format for the textfile collector of the node exporter: the last figure of each measurement.

Units are seconds and bytes, by Prometheus' conventions. An unknown figure has no sample.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import BinaryIO

from busbw.exporters.flat import FlatRow, flat_rows
from busbw.logs import Log

SUFFIX = ".prom"

_HELP = {
    "busbw_operation_seconds": "Time of one operation.",
    "busbw_algorithm_bandwidth_bytes_per_second": "Bytes divided by time.",
    "busbw_bus_bandwidth_bytes_per_second": "Algorithm bandwidth times the factor of the collective.",
    "busbw_wrong_elements": "Elements with wrong data, if checked.",
    "busbw_run_complete": "1 if the run completed, otherwise 0.",
    "busbw_run_start_time_seconds": "Start of the run in seconds since 1970.",
}
_LABELS = ("library", "collective", "dtype", "redop", "root", "ranks", "group", "variant", "placement", "size_bytes")

_Labels = tuple[tuple[str, str], ...]


def write(logs: Sequence[Log], out: BinaryIO) -> None:
    """Writes one sample per label set. Of measurements with equal labels (cycles of -N), the last one is written."""
    samples: dict[str, dict[_Labels, float]] = {name: {} for name in _HELP}
    for name, labels, value in (*_runs(logs), *_measurements(logs)):
        samples[name][labels] = value
    for name, family in samples.items():
        if family:
            out.write(f"# HELP {name} {_HELP[name]}\n# TYPE {name} gauge\n".encode())
        for labels, value in family.items():
            words = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
            out.write(f"{name}{{{words}}} {value!r}\n".encode("utf-8", errors="replace"))


def _runs(logs: Sequence[Log]) -> Iterator[tuple[str, _Labels, float]]:
    for log in logs:
        for number, table in enumerate(log.tables, start=1):
            labels = (("run", log.source), ("table", str(number)))
            if table.complete is not None:
                yield "busbw_run_complete", labels, float(table.complete)
            if (start_s := _seconds(table.start_time)) is not None:
                yield "busbw_run_start_time_seconds", labels, start_s


def _seconds(time: str | None) -> float | None:
    """Returns seconds since 1970; None if the time is invalid or has no time zone."""
    try:
        moment = datetime.fromisoformat((time or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


def _measurements(logs: Sequence[Log]) -> Iterator[tuple[str, _Labels, float]]:
    for row in flat_rows(logs):
        labels = _labels(row)
        values = {
            "busbw_operation_seconds": None if row.time_us is None else row.time_us / 1e6,
            "busbw_algorithm_bandwidth_bytes_per_second": None if row.algbw_gbps is None else row.algbw_gbps * 1e9,
            "busbw_bus_bandwidth_bytes_per_second": None if row.busbw_gbps is None else row.busbw_gbps * 1e9,
            "busbw_wrong_elements": None if row.wrong_elements is None else float(row.wrong_elements),
        }
        for name, value in values.items():
            if value is not None:
                yield name, labels, value


def _labels(row: FlatRow) -> _Labels:
    known = [(name, getattr(row, name)) for name in _LABELS]
    return (
        ("run", row.log),
        ("table", str(row.table)),
        *((name, str(value)) for name, value in known if value is not None),
    )


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
