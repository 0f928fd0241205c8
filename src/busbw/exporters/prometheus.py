"""Prometheus text format, for the textfile collector of the node exporter.

There is one sample per metric and label set: the last known value. Units are seconds and bytes, by Prometheus'
conventions. An unknown figure has no sample.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import lru_cache
from itertools import chain, groupby
from operator import attrgetter
from typing import BinaryIO, NamedTuple

from busbw.exporters.flat import column_blocks, joined_texts
from busbw.judge import GRADES, JudgedConfiguration
from busbw.logs.log import Log
from busbw.logs.sequences import temporary_file

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
_MEASURED_METRICS: dict[str, tuple[str, Callable[[float], float]]] = {
    "busbw_operation_seconds": ("time_us", lambda time_us: time_us / 1e6),
    "busbw_algorithm_bandwidth_bytes_per_second": ("algbw_gbps", lambda algbw_gbps: algbw_gbps * 1e9),
    "busbw_bus_bandwidth_bytes_per_second": ("busbw_gbps", lambda busbw_gbps: busbw_gbps * 1e9),
    "busbw_wrong_elements": ("wrong_elements", float),
}
"""Metrics of a measurement, each with its column and the function that converts its values."""
_CONFIGURATION_LABELS = ("collective", "dtype", "redop", "root", "ranks", "group", "variant")
"""Labels of a configuration, which its measurements and its verdict share."""
_LABELS = ("library", "hosts", *_CONFIGURATION_LABELS, "placement", "size_bytes")
"""Columns of a measurement that are labels of the same name. The labels `run` and `table` are its `log` and `table`."""

Labels = tuple[tuple[str, str], ...]
"""(Name, value) of each label of a sample."""


class _Samples(NamedTuple):
    """Values of a metric for a table."""

    table: tuple[str, int]
    """Run and number of the table."""
    metric: str
    value_by_labels: dict[str, float]
    """Values by the text of their labels, which the metrics of a measurement share."""


def write(logs: Sequence[Log], out: BinaryIO, verdicts: Sequence[JudgedConfiguration] = ()) -> None:
    """Writes the samples. Of samples with the same metric and labels (cycles of -N), the last value is written."""
    # The samples of a metric must be adjacent, so each metric is collected in a file of its own.
    with ExitStack() as stack:
        files = {metric: stack.enter_context(temporary_file()) for metric in _HELP_BY_METRIC}
        samples = chain(_run_samples(logs), _measurement_samples(logs, verdicts), _verdict_samples(verdicts))
        # Samples with the same metric and labels come from one of the three iterators and from one table. So only the
        # samples of one table from one iterator are in memory.
        for _, samples_of_table in groupby(samples, key=attrgetter("table")):
            last_values: dict[str, dict[str, float]] = {}
            for _, metric, value_by_labels in samples_of_table:
                last_values.setdefault(metric, {}).update(value_by_labels)
            for metric, value_by_labels in last_values.items():
                lines = [_sample_line(metric, *labels_and_value) for labels_and_value in value_by_labels.items()]
                files[metric].write("".join(lines).encode("utf-8", errors="replace"))
        for metric, file in files.items():
            if file.tell():
                out.write(header(metric, _HELP_BY_METRIC[metric]).encode())
            file.seek(0)
            shutil.copyfileobj(file, out)


def header(metric: str, help_text: str) -> str:
    """Returns the lines before the samples of a metric."""
    return f"# HELP {metric} {help_text}\n# TYPE {metric} gauge\n"


def _sample_line(metric: str, labels_text: str, value: float) -> str:
    return f"{metric}{{{labels_text}}} {value!r}\n"


def metrics_text(metrics: Mapping[str, tuple[str, Mapping[Labels, float | None]]]) -> bytes:
    """Returns a document from the help text and the samples of each metric. An unknown value has no sample."""
    parts: list[str] = []
    for name, (help_text, samples) in metrics.items():
        lines = [
            _sample_line(name, _labels_text(labels), value) for labels, value in samples.items() if value is not None
        ]
        if lines:
            parts += [header(name, help_text), *lines]
    return "".join(parts).encode(errors="replace")


def _run_samples(logs: Sequence[Log]) -> Iterator[_Samples]:
    """Yields the samples about each run."""
    for log in logs:
        for number, table in enumerate(log.tables, start=1):
            labels_text = _labels_text(_table_labels(log.source, number))
            if table.complete is not None:
                yield _Samples((log.source, number), "busbw_run_complete", {labels_text: float(table.complete)})
            if (start_s := _seconds_since_1970(table.start_time)) is not None:
                yield _Samples((log.source, number), "busbw_run_start_time_seconds", {labels_text: start_s})


def _seconds_since_1970(iso_time: str | None) -> float | None:
    """Returns seconds since 1970; None if the time is invalid or has no time zone."""
    try:
        parsed_time = datetime.fromisoformat((iso_time or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    return parsed_time.timestamp() if parsed_time.tzinfo else None


def _measurement_samples(logs: Sequence[Log], verdicts: Sequence[JudgedConfiguration]) -> Iterator[_Samples]:
    """Yields the samples about the measurements."""
    systems = {(configuration.log, configuration.table): configuration.system for configuration in verdicts}
    for columns in column_blocks(logs):
        table = (columns["log"][0], columns["table"][0])
        system_text = "".join(_more_labels("system", [systems.get(table)]))
        beginning = _labels_text(_table_labels(*table))
        labels = joined_texts(columns, _LABELS, _more_labels, "")
        labels_texts = [f"{beginning}{labels_text}{system_text}" for labels_text in labels]
        for metric, (column, convert) in _MEASURED_METRICS.items():
            known_values = zip(labels_texts, columns[column], strict=True)
            yield _Samples(table, metric, {text: convert(value) for text, value in known_values if value is not None})


def _verdict_samples(verdicts: Sequence[JudgedConfiguration]) -> Iterator[_Samples]:
    """Yields a sample for each grade of each configuration: a grade that no longer applies becomes 0."""
    for configuration in verdicts:
        table = (configuration.log, configuration.table)
        values = {name: getattr(configuration, name) for name in _CONFIGURATION_LABELS}
        values |= {"hosts": " ".join(configuration.hosts) or None, "system": configuration.system}
        known_values = ((name, str(value)) for name, value in values.items() if value is not None)
        labels_text = _labels_text((*_table_labels(*table), *known_values))
        grades = {f'{labels_text},grade="{grade}"': float(grade == configuration.grade) for grade in GRADES}
        yield _Samples(table, "busbw_verdict", grades)


def _table_labels(log: str, table: int) -> Labels:
    return ("run", log), ("table", str(table))


def _labels_text(labels: Labels) -> str:
    return ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels)


def _more_labels(name: str, values: Sequence[object]) -> list[str]:
    """Returns the text of a label for each value, with a comma before it. Empty for None, which has no label."""
    return ["" if value is None else f',{name}="{_escape_label(str(value))}"' for value in values]


@lru_cache(maxsize=256)  # most texts repeat in many labels
def _escape_label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
