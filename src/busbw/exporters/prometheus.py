"""Prometheus text format, for the textfile collector of the node exporter.

There is one sample per metric and label set: the last known value. Units are seconds and bytes, by Prometheus'
conventions. An unknown figure has no sample.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from itertools import chain, groupby
from operator import attrgetter
from typing import BinaryIO, NamedTuple

from busbw.exporters.flat import flat_rows
from busbw.judge import GRADES, JudgedConfiguration
from busbw.logs import Log
from busbw.sequences import temporary_file

SUFFIX = ".prom"
HAS_VERDICTS = True

_HELP_BY_METRIC = {
    "busbw_operation_seconds": "Time of one operation.",
    "busbw_algorithm_bandwidth_bytes_per_second": "Bytes divided by time.",
    "busbw_bus_bandwidth_bytes_per_second": "Algorithm bandwidth times the factor of the collective.",
    "busbw_wrong_elements": "Elements with wrong data, if checked.",
    "busbw_verdict": "1 for the grade of a configuration, 0 for the other grades.",
    "busbw_run_complete": "1 if the run completed, otherwise 0.",
    "busbw_run_start_time_seconds": "Start of the run in seconds since 1970.",
}
_CONFIGURATION_LABELS = ("collective", "dtype", "redop", "root", "ranks", "group", "variant")
"""Labels of a configuration, which its measurements and its verdict share."""
_LABELS = ("library", "hosts", *_CONFIGURATION_LABELS, "placement", "size_bytes")
"""Fields of a flat row that are labels of the same name. In addition, its `log` is the label `run`, and its `table` the
label `table`."""

Labels = tuple[tuple[str, str], ...]
"""(Name, value) of each label of a sample."""


class _Sample(NamedTuple):
    """Value of a metric for a set of labels."""

    metric: str
    labels: Labels
    value: float

    @property
    def table_labels(self) -> Labels:
        """Labels that identify the table: `run` and `table`, which are first."""
        return self.labels[:2]


def write(logs: Sequence[Log], out: BinaryIO, verdicts: Sequence[JudgedConfiguration] = ()) -> None:
    """Writes the samples. Of samples with the same metric and labels (cycles of -N), the last value is written."""
    # The samples of a metric must be adjacent, so each metric is collected in a file of its own.
    with ExitStack() as stack:
        files = {metric: stack.enter_context(temporary_file()) for metric in _HELP_BY_METRIC}
        samples = chain(_run_samples(logs), _measurement_samples(logs, verdicts), _verdict_samples(verdicts))
        # Samples with the same metric and labels come from one of the three iterators and from one table. So only the
        # samples of one table from one iterator are in memory.
        for _, samples_of_table in groupby(samples, key=attrgetter("table_labels")):
            last_values = {(sample.metric, sample.labels): sample.value for sample in samples_of_table}
            for (metric, labels), value in last_values.items():
                files[metric].write(sample_line(metric, labels, value).encode("utf-8", errors="replace"))
        for metric, file in files.items():
            if file.tell():
                out.write(header(metric, _HELP_BY_METRIC[metric]).encode())
            file.seek(0)
            shutil.copyfileobj(file, out)


def header(metric: str, help_text: str) -> str:
    """Returns the lines before the samples of a metric."""
    return f"# HELP {metric} {help_text}\n# TYPE {metric} gauge\n"


def sample_line(metric: str, labels: Labels, value: float) -> str:
    """Returns the line of a sample."""
    labels_text = ",".join(f'{label}="{_escape_label(label_value)}"' for label, label_value in labels)
    return f"{metric}{{{labels_text}}} {value!r}\n"


def metrics_text(metrics: Mapping[str, tuple[str, Mapping[Labels, float | None]]]) -> bytes:
    """Returns a document from the help text and the samples of each metric. An unknown value has no sample."""
    parts: list[str] = []
    for name, (help_text, samples) in metrics.items():
        lines = [sample_line(name, labels, value) for labels, value in samples.items() if value is not None]
        if lines:
            parts += [header(name, help_text), *lines]
    return "".join(parts).encode(errors="replace")


def _run_samples(logs: Sequence[Log]) -> Iterator[_Sample]:
    """Yields each sample about a run."""
    for log in logs:
        for table_number, table in enumerate(log.tables, start=1):
            labels = (("run", log.source), ("table", str(table_number)))
            if table.complete is not None:
                yield _Sample("busbw_run_complete", labels, float(table.complete))
            if (start_s := _seconds_since_1970(table.start_time)) is not None:
                yield _Sample("busbw_run_start_time_seconds", labels, start_s)


def _seconds_since_1970(iso_time: str | None) -> float | None:
    """Returns seconds since 1970; None if the time is invalid or has no time zone."""
    try:
        parsed_time = datetime.fromisoformat((iso_time or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    return parsed_time.timestamp() if parsed_time.tzinfo else None


def _measurement_samples(logs: Sequence[Log], verdicts: Sequence[JudgedConfiguration]) -> Iterator[_Sample]:
    """Yields each sample about a measurement."""
    systems = {(configuration.log, configuration.table): configuration.system for configuration in verdicts}
    for row in flat_rows(logs):
        labels = _make_labels(row, row.log, row.table, _LABELS, system=systems.get((row.log, row.table)))
        values = {
            "busbw_operation_seconds": None if row.time_us is None else row.time_us / 1e6,
            "busbw_algorithm_bandwidth_bytes_per_second": None if row.algbw_gbps is None else row.algbw_gbps * 1e9,
            "busbw_bus_bandwidth_bytes_per_second": None if row.busbw_gbps is None else row.busbw_gbps * 1e9,
            "busbw_wrong_elements": None if row.wrong_elements is None else float(row.wrong_elements),
        }
        for metric, value in values.items():
            if value is not None:
                yield _Sample(metric, labels, value)


def _verdict_samples(verdicts: Sequence[JudgedConfiguration]) -> Iterator[_Sample]:
    """Yields a sample for each grade of each configuration: a grade that no longer applies becomes 0."""
    for configuration in verdicts:
        hosts = " ".join(configuration.hosts) or None
        for grade in GRADES:
            labels = _make_labels(
                configuration,
                configuration.log,
                configuration.table,
                _CONFIGURATION_LABELS,
                hosts=hosts,
                system=configuration.system,
                grade=grade,
            )
            yield _Sample("busbw_verdict", labels, float(grade == configuration.grade))


def _make_labels(source: object, log: str, table: int, names: Sequence[str], **more: str | None) -> Labels:
    """Returns the labels `run` and `table`, the named fields of `source`, and `more`. A value of None has no label."""
    values = {name: getattr(source, name) for name in names} | more
    return (
        ("run", log),
        ("table", str(table)),
        *((name, str(value)) for name, value in values.items() if value is not None),
    )


def _escape_label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
