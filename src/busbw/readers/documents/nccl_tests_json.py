"""Reads the document of nccl-tests' -J, format 3. busbw writes the same format. json_documents.py calls this reader."""

import argparse
import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any

import msgspec

from busbw.errors import UsageError
from busbw.logs.log import Figure, Placement, Rank, Refusal
from busbw.readers.documents import tolerant_json
from busbw.readers.documents.json_rows import JsonRow
from busbw.readers.documents.row_blocks import split_into_blocks
from busbw.readers.documents.table_builder import RowFields, TableBuilder
from busbw.readers.documents.uniform_json_rows import parse_uniform_json_rows
from busbw.readers.tables import collectives
from busbw.readers.tables.events import Event, UserClaims
from busbw.readers.tables.facts import MAX_RANKS, TableFacts
from busbw.readers.tables.headers import library_text
from busbw.readers.tables.layouts import BOTH, PlacementText
from busbw.readers.tables.plausibility import implausible_figure_reason
from busbw.readers.tables.quantities import NOT_FINITE
from busbw.records import COMPLETE_END_REASONS, StatsRecord

MAX_VERSION = 3
_SAFE_VARIABLES = re.compile(r"(?:NCCL|RCCL|UCX|FI|OMPI_MCA|HSA|MSCCL|MSCCLPP|NVSHMEM)_\w+$|CUDA_VISIBLE_DEVICES$")
"""Variables that are read, such as NCCL_ALGO. nccl-tests writes the whole environment, which may contain secrets."""

_CONTEXTS = "rma_contexts"
_TRAFFIC_FLAGS = {
    _CONTEXTS: ("-H", "--host_rma_implementation", "--one_sided"),
    "skew": ("--skew",),
    "neighbor": ("--with",),
}
"""Flags that determine the traffic of a run, by the name of the setting in records."""
_NO_FIGURE = "N/A"
_POSITIVE_NUMBER = re.compile("0*[1-9][0-9]*")


def stream(document: dict[str, Any], rows: Iterable[JsonRow], source: str, claims: UserClaims) -> Iterator[Event]:
    """Yields the single table of a document. `document` is without its rows. `source`: name of the log for errors.

    Raises:
        UsageError: The document has a newer version.
    """
    version = document.get("version", MAX_VERSION)
    if isinstance(version, int) and version > MAX_VERSION:
        raise UsageError(
            f"{source} has format {version} of nccl-tests' JSON, this busbw reads up to {MAX_VERSION}",
            remedy="use a newer busbw, or pass the run's text output",
        )
    remaining_rows = iter(rows)
    first_rows = list(islice(remaining_rows, 1))
    has_cpu_time = any(_has_cpu_time(tolerant_json.decode_part(row.text, source)) for row in first_rows)
    tables = TableBuilder(
        "nccl-tests JSON 3",
        _parse_facts(document),
        claims,
        source,
        has_cpu_time=has_cpu_time,
        table_fields=_parse_table_fields(document),
    )
    for block in split_into_blocks(chain(first_rows, remaining_rows)):
        if uniform_rows := parse_uniform_json_rows(block, partial(_parse_row, source)):
            yield from tables.add_uniform_rows(uniform_rows, _parse_row(source, block[0]))
        else:
            yield from _add_single_rows(block, tables, source)
    # Elements that are no containers are no rows.
    for value in document["results"]:
        yield _refuse_cut_row(1, value)
    yield from tables.end_table()


def _add_single_rows(rows: Iterable[JsonRow], tables: TableBuilder, source: str) -> Iterator[Event]:
    """Adds rows of any form to the table. Yields its events and refused rows."""
    for row in rows:
        value = tolerant_json.decode_part(row.text, source)
        if not isinstance(value, dict) or tolerant_json.CUT in value:
            yield _refuse_cut_row(row.line, value)
            continue
        fields = _make_row_fields(row.line, value)
        if not fields.figure_texts:
            yield Refusal(line=row.line, text=str(value)[:300], reason="the row has no figures")
        yield from tables.add(fields)


def _refuse_cut_row(line: int, value: Any) -> Refusal:
    return Refusal(line=line, text=str(value)[:300], reason="the row is cut: the run was killed while it wrote")


def _parse_row(source: str, row: JsonRow) -> RowFields:
    return _make_row_fields(row.line, tolerant_json.decode_part(row.text, source))


def _has_cpu_time(row: Any) -> bool:
    """True if a row has CPU times (-C)."""
    placements = (row.get("out_of_place"), row.get("in_place")) if isinstance(row, dict) else ()
    return any(isinstance(figures, dict) and "cpu_time" in figures for figures in placements)


def _parse_table_fields(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the start time, the environment and the end of the document, as fields of `Table`."""
    start_time = document.get("start_time")
    is_cut = tolerant_json.CUT in document or "end_time" not in document
    # Only busbw states why a complete document lacks rows.
    busbw_section = document.get("busbw")
    reason = busbw_section.get("end_reason") if isinstance(busbw_section, dict) else None
    early_end_reason = reason if isinstance(reason, str) and reason not in COMPLETE_END_REASONS else None
    errors = [str(error)[:300] for error in _as_list(document.get("errors")) if error]
    return {
        "start_time": start_time if isinstance(start_time, str) else None,
        "environment": _parse_environment(document),
        "complete": not is_cut and early_end_reason is None,
        "end_reason": errors[0] if errors else "the document is cut off" if is_cut else early_end_reason,
    }


def _parse_facts(document: dict[str, Any]) -> TableFacts:
    """Returns the facts about the whole table: program, library, settings, ranks and footer."""
    args = [str(word) for word in _as_list(document.get("args"))]
    config = document.get("config")
    config = config if isinstance(config, dict) else {}
    facts = TableFacts(command=" ".join(args)[:4000] or None)
    if args:
        facts.program = args[0].rsplit("/", 1)[-1]
        name, is_program, _ = facts.program.partition("_perf")
        facts.stated_collective = collectives.single_collective_in(name) if is_program else None
    version_code = document.get("nccl_version")
    facts.library = library_text(version_code) if isinstance(version_code, int) and 0 < version_code < 10**8 else None
    facts.settings = {
        key: str(value) for key, value in config.items() if key != "devices" and not isinstance(value, (dict, list))
    }
    facts.settings |= _traffic_settings(args)
    devices = [device for device in _as_list(config.get("devices")) if isinstance(device, dict)][:MAX_RANKS]
    facts.ranks = [rank for device in devices if (rank := _parse_rank(device))]
    threads, gpus = config.get("nthreads"), config.get("ngpus")  # threads per process, GPUs per thread
    if devices and isinstance(threads, int) and isinstance(gpus, int) and 0 < threads < 10**4 and 0 < gpus < 10**4:
        # The list has one device per process, even if the process has several threads or GPUs. Processes in containers
        # may have equal pids and hosts.
        facts.claimed_gpus = len(devices) * threads * gpus
        facts.claimed_by = "the configuration"
        facts.list_is_cut = True  # the list is incomplete, so claimed_gpus counts and not the number of its entries
    average = document.get("average_bus_bandwidth")
    if isinstance(average, dict) and isinstance(average.get("bandwidth"), float):
        facts.average = f"{average['bandwidth']:.6f}"
    bounds = document.get("out_of_bounds")
    if isinstance(bounds, dict) and isinstance(bounds.get("count"), int):
        facts.out_of_bounds = bounds["count"]
    return facts


def _traffic_settings(args: list[str]) -> dict[str, str]:
    """Returns the settings of a command line that determine its traffic, named as in records."""
    settings = {}
    for name, options in _TRAFFIC_FLAGS.items():
        parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
        # A flag without its value is no error. Only -H alone has a meaning: one context.
        parser.add_argument(*options, dest=name, nargs="?", const="1" if name == _CONTEXTS else None)
        if value := getattr(parser.parse_known_args(args)[0], name):
            settings[name] = str(value)
    # A run is one-sided if its number of contexts is above 0. Any other value is left out.
    if _POSITIVE_NUMBER.fullmatch(settings.get(_CONTEXTS, "")):
        return settings | {"one_sided": "True"}
    settings.pop(_CONTEXTS, None)
    return settings


def _parse_rank(device: dict[str, Any]) -> Rank | None:
    values = {
        "rank": device.get("rank"),
        "group": device.get("group", 0),
        "pid": device.get("pid"),
        "host": device.get("hostname"),
        "device": device.get("device"),
        "bus_id": device.get("device_hex"),
        "device_name": device.get("device_info"),
    }
    try:
        return msgspec.convert(values, Rank)
    except msgspec.ValidationError:
        return None


def _parse_environment(document: dict[str, Any]) -> dict[str, str]:
    pairs = (str(entry).partition("=") for entry in _as_list(document.get("env")))
    return {key: value.replace("\\/", "/") for key, _, value in pairs if _SAFE_VARIABLES.match(key)}


def _make_row_fields(line: int, row: dict[str, Any]) -> RowFields:
    figures_by_placement: dict[Placement, dict[str, Any]] = {
        placement: figures for placement in BOTH if isinstance(figures := row.get(placement), dict)
    }
    count, group = row.get("count"), row.get("group", 0)
    return RowFields(
        line=line,
        # Only these fields, because the samples of the row need much memory.
        format_text=partial(
            _placement_text, {name: row.get(name) for name in ("size", "count", "type", "redop", *BOTH)}
        ),
        size=str(row.get("size")),
        figure_texts={placement: _figure_texts(figures) for placement, figures in figures_by_placement.items()},
        elements="" if count is None else str(count),
        dtype=str(row.get("type", "")),
        redop=str(row.get("redop", "")).strip(),
        root=str(row.get("root", "")).strip(),
        group=group if isinstance(group, int) else 0,
        extra_figure_fields={
            placement: fields
            for placement in figures_by_placement
            if (fields := _parse_statistics(row.get(f"{placement}_per_iter")))
        },
    )


def _placement_text(row: dict[str, Any], placement: Placement) -> str:
    size, count, dtype, redop = map(row.get, ("size", "count", "type", "redop"))
    return f"size {size}, count {count}, {dtype}, {redop}: {row[placement]}"


def _figure_texts(figures: dict[str, Any]) -> PlacementText:
    values = (figures.get("time", figures.get("cpu_time")), figures.get("alg_bw"), figures.get("bus_bw"))
    texts = list(map(_number_text, values))
    if any(text != _NO_FIGURE for text in texts):  # a placement without any number is missing, not invalid
        texts = [
            value if isinstance(value, str) and value in NOT_FINITE else text
            for value, text in zip(values, texts, strict=True)
        ]
    time, algbw, busbw = texts
    return PlacementText(time, algbw, busbw, _count_text(figures.get("nwrong")))


def _number_text(value: Any) -> str:
    """Formats a number with six decimals, as nccl-tests prints doubles. Any other value becomes `_NO_FIGURE`."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18:
        return f"{value:.6f}"
    return _NO_FIGURE


def _count_text(value: Any) -> str:
    """Formats a number of elements."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18
    return str(value) if is_count else _number_text(value)


def _parse_statistics(values: Any) -> dict[str, Any]:
    """Returns the statistics and samples of -I; empty if any of them is missing or invalid."""
    if not isinstance(values, dict):
        return {}
    times = values.get("times_us")
    per_process = values.get("per_process_max_times_us") or ([times] if times else [])
    try:
        samples = msgspec.convert(per_process, tuple[tuple[float, ...], ...])
        skipped = values.get("skipped_iterations", 0)
        stats = StatsRecord(
            samples=max(1, len(times or ()) - int(skipped)),
            mean_us=float(values["avg_us"]),
            median_us=float(values["p50_us"]),
            p95_us=float(values["p95_us"]),
            p99_us=float(values["p99_us"]),
            min_us=float(values["min_us"]),
            max_us=float(values["max_us"]),
            stdev_us=float(values["stdev_us"]),
            cv_percent=float(values["cv_pct"]) if values.get("cv_pct") is not None else None,
            median_ci95_us=None,
        )
    except (msgspec.ValidationError, KeyError, TypeError, ValueError, OverflowError):
        return {}
    extra_fields: dict[str, Any] = {"stats": stats, "samples_us": samples}
    return {} if implausible_figure_reason(Figure(**extra_fields)) else extra_fields


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
