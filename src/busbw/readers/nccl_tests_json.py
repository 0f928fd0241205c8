"""Reads the document of nccl-tests' -J, format 3. busbw writes the same format."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from busbw.errors import UsageError
from busbw.logs import Placement, Rank, Refusal
from busbw.readers import tolerant_json
from busbw.readers.flat import FlatPlacement, FlatTableBuilder
from busbw.readers.tables.events import Event, TableChunk, UserClaims
from busbw.readers.tables.headers import MAX_RANKS, TableFacts, library_text
from busbw.readers.tables.layouts import PlacementText
from busbw.records import StatsRecord

VERSION = 3
_COMPLETE_REASONS = ("completed", "wrong data", "slower than demanded")
"""End reasons of busbw runs that have all their rows."""
_SIZE_KEY = re.compile(rb'"size"\s*:')
_SAFE_VARIABLES = re.compile(r"(?:NCCL|RCCL|UCX|FI|OMPI_MCA|HSA|MSCCL|MSCCLPP|NVSHMEM)_\w+$|CUDA_VISIBLE_DEVICES$")
"""Variables that are read. nccl-tests writes the whole environment, and other variables may contain secrets."""


def stream(document: dict[str, Any], data: bytes, source: str, claims: UserClaims) -> Iterator[Event]:
    """Yields the single table of the document.

    Raises:
        UsageError: The document has a newer version.
    """
    version = document.get("version", VERSION)
    if isinstance(version, int) and version > VERSION:
        raise UsageError(
            f"{source} has format {version} of nccl-tests' JSON, this busbw reads up to {VERSION}",
            remedy="use a newer busbw, or pass the run's text output",
        )
    facts = _facts(document)
    rows = document["results"]
    lines = _lines(data, len(rows))
    has_time = not any(
        isinstance(side, dict) and "cpu_time" in side
        for row in rows[:1]
        if isinstance(row, dict)
        for side in (row.get("out_of_place"), row.get("in_place"))
    )
    tables = FlatTableBuilder("nccl-tests JSON 3", facts, claims, source, has_time=has_time)
    is_cut = tolerant_json.CUT in document or "end_time" not in document
    early_end_reason = _early_end_reason(document)
    for line, row in zip(lines, rows, strict=True):
        if not isinstance(row, dict) or tolerant_json.CUT in row:
            yield Refusal(line=line, text=str(row)[:300], reason="the row is cut: the run was killed while it wrote")
            continue
        for flat in _flats(line, row):
            for event in tables.add(flat):
                yield _with_document_facts(event, document, early_end_reason, is_cut=is_cut)
    for event in tables.end():
        yield _with_document_facts(event, document, early_end_reason, is_cut=is_cut)


def _early_end_reason(document: dict[str, Any]) -> str | None:
    """Returns why a complete busbw document lacks rows, or None. Documents of nccl-tests have no such field."""
    ours = document.get("busbw")
    reason = ours.get("end_reason") if isinstance(ours, dict) else None
    return reason if isinstance(reason, str) and reason not in _COMPLETE_REASONS else None


def _lines(data: bytes, rows: int) -> list[int]:
    """Returns the first line of each row; 1 for all rows if the number of size keys differs from that of rows."""
    lines, line, last = [], 1, 0
    for found in _SIZE_KEY.finditer(data):
        line += data.count(b"\n", last, found.start())
        last = found.start()
        lines.append(line)
    return lines if len(lines) == rows else [1] * rows


def _with_document_facts(
    event: Event, document: dict[str, Any], early_end_reason: str | None, *, is_cut: bool
) -> Event:
    """Adds the start time, the environment and the end of the document to its table."""
    if not isinstance(event, TableChunk):
        return event
    errors = [str(error) for error in _list(document.get("errors")) if error]
    table = msgspec.structs.replace(
        event.table,
        start_time=document.get("start_time") if isinstance(document.get("start_time"), str) else None,
        environment=_environment(document),
        complete=not is_cut and early_end_reason is None,
        end_reason=errors[0][:300] if errors else "the document is cut off" if is_cut else early_end_reason,
    )
    return TableChunk(table, event.is_last)


def _facts(document: dict[str, Any]) -> TableFacts:
    args = [str(word) for word in _list(document.get("args"))]
    config = document.get("config")
    config = config if isinstance(config, dict) else {}
    facts = TableFacts(command=" ".join(args)[:4000] or None)
    if args:
        facts.program = args[0].rsplit("/", 1)[-1]
    code = document.get("nccl_version")
    facts.library = library_text(code) if isinstance(code, int) and 0 < code < 10**8 else None
    facts.settings = {
        key: str(value) for key, value in config.items() if key != "devices" and not isinstance(value, (dict, list))
    }
    devices = [device for device in _list(config.get("devices")) if isinstance(device, dict)][:MAX_RANKS]
    facts.ranks = [rank for device in devices if (rank := _rank(device))]
    threads, gpus = config.get("nthreads"), config.get("ngpus")
    if facts.ranks and isinstance(threads, int) and isinstance(gpus, int) and 0 < threads < 10**4 and 0 < gpus < 10**4:
        # nccl-tests lists one line per process, even if the process has several threads or GPUs.
        ours = "busbw" in document
        facts.claimed_gpus = len(facts.ranks) * (1 if ours else threads * gpus)
        facts.claimed_by = "the configuration"
        facts.list_is_cut = True
    average = document.get("average_bus_bandwidth")
    if isinstance(average, dict) and isinstance(average.get("bandwidth"), float):
        facts.average = f"{average['bandwidth']:.6f}"
    bounds = document.get("out_of_bounds")
    if isinstance(bounds, dict) and isinstance(bounds.get("count"), int):
        facts.out_of_bounds = bounds["count"]
    return facts


def _rank(device: dict[str, Any]) -> Rank | None:
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


def _environment(document: dict[str, Any]) -> dict[str, str]:
    pairs = (str(entry).partition("=") for entry in _list(document.get("env")))
    return {key: value.replace("\\/", "/") for key, _, value in pairs if _SAFE_VARIABLES.match(key)}


def _flats(line: int, row: dict[str, Any]) -> Iterator[FlatPlacement]:
    size, count = row.get("size"), row.get("count")
    group = row.get("group", 0)
    for placement in ("out_of_place", "in_place"):
        side = row.get(placement)
        if not isinstance(side, dict):
            continue
        name: Placement = "out_of_place" if placement == "out_of_place" else "in_place"
        yield FlatPlacement(
            line=line,
            text=f"size {size}, count {count}, {row.get('type')}, {row.get('redop')}: {side}",
            size=str(size),
            side=PlacementText(
                _text(side.get("time", side.get("cpu_time"))),
                _text(side.get("alg_bw")),
                _text(side.get("bus_bw")),
                _text(side.get("nwrong")),
            ),
            placement=name,
            elements=str(count) if isinstance(count, int) else "",
            dtype=str(row.get("type", "")),
            redop=str(row.get("redop", "")).strip(),
            root=str(row.get("root", "")).strip(),
            group=group if isinstance(group, int) else 0,
            figure=_statistics(row.get(f"{placement}_per_iter")),
        )


def _text(value: Any) -> str:
    """Formats a number with six decimals, as nccl-tests prints doubles. "nan" and null become "N/A"."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18:
        return f"{value:.6f}"
    return "N/A"


def _statistics(values: Any) -> dict[str, Any]:
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
    return {"stats": stats, "samples_us": samples}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
