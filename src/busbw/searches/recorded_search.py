"""Writes the rounds of a search to a record as they are measured, and reads them again (docs/reference/records.md)."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np

from busbw.errors import BusbwError
from busbw.find.cluster import Cluster, NodeDescription
from busbw.find.observations import RoundResult
from busbw.find.rounds import Load, Round
from busbw.records import RecordsError
from busbw.searches.records import LoadName, RoundRecord, SearchEndRecord, SearchLine, SearchRecord, stream_search

_PID = re.compile(r"\bpid \d+")


def append_lines(path: Path, *lines: SearchLine) -> None:
    """Adds lines to a record, which is created if it does not exist.

    Raises:
        BusbwError: The file cannot be written. It then has its earlier lines only.
    """
    try:
        with path.open("ab", buffering=0) as file:
            end = file.tell()
            try:
                content = memoryview(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
                while content:  # an unbuffered file may take only a part
                    content = content[file.write(content) :]
            except OSError:
                file.truncate(end)
                raise
    except OSError as error:
        raise BusbwError(f"cannot write {path}: {error.strerror}", remedy="give another file") from error


def round_record(measured_round: Round, result: RoundResult) -> RoundRecord:
    """Returns the line of a round. A time that is missing in the result (NaN) is left out."""
    return RoundRecord(
        load=cast(LoadName, measured_round.load.name.lower()),
        size_bytes=measured_round.size_bytes,
        sources=measured_round.source.tolist(),
        targets=measured_round.target.tolist(),
        times_us=[flow_times[~np.isnan(flow_times)].tolist() for flow_times in np.round(result.times_us, 3)],
        errors=dict(result.errors),
        took_s=result.took_s,
    )


@dataclass(frozen=True, kw_only=True)
class RecordedSearch:
    """Content of a record, for a new analysis of the same flows."""

    header: SearchRecord
    cluster: Cluster
    rounds: list[Round]
    results: list[RoundResult]
    end: SearchEndRecord | None
    """None if the search was killed, or still runs."""


def read_search(path: Path) -> RecordedSearch:
    """Reads the record of a search.

    Raises:
        RecordsError: The file cannot be read, is malformed, or has no round.
    """
    lines = [line for line in stream_search(path) if line is not None]
    header = next(line for line in lines if isinstance(line, SearchRecord))
    try:
        cluster = Cluster(msgspec.convert(header.nodes, list[NodeDescription]))
        decoded = [_decode_round(line, cluster) for line in lines if isinstance(line, RoundRecord)]
    except (BusbwError, ValueError) as error:
        raise RecordsError(f"{path}: {error}", remedy="give a file written by busbw find") from error
    if not decoded:
        raise RecordsError(f"{path} has no round", remedy="search again")
    rounds, results = zip(*decoded, strict=True)
    end = next((line for line in lines if isinstance(line, SearchEndRecord)), None)
    return RecordedSearch(header=header, cluster=cluster, rounds=list(rounds), results=list(results), end=end)


def redact_search(search: RecordedSearch) -> RecordedSearch:
    """Returns the search with `host-1` and `leaf-1` for names, and without its command line and process ids."""
    node_names = [node.name for node in search.cluster.nodes]
    hosts = {name: f"host-{number}" for number, name in enumerate(node_names, start=1)}
    leaves = {name: f"leaf-{number}" for number, name in enumerate(search.cluster.leaf_names, start=1)}
    replacements = leaves | hosts
    longest_first = "|".join(map(re.escape, sorted(replacements, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w.-])(?:{longest_first})(?![\w-])")  # n1 in "n1: nic", but not in "n10" or "n1-a"

    def redact(value: Any) -> Any:
        if isinstance(value, str):
            return _PID.sub("pid", pattern.sub(lambda match: replacements[match[0]], value))
        if isinstance(value, dict):
            # The value of `kind` is a kind of part, such as "nic", which is also a possible name of a node.
            return {key: item if key == "kind" else redact(item) for key, item in value.items()}
        return [redact(item) for item in value] if isinstance(value, list | tuple) else value

    descriptions = msgspec.convert(redact(msgspec.to_builtins(search.cluster.nodes)), list[NodeDescription])
    end = search.end and msgspec.convert(redact(msgspec.to_builtins(search.end)), SearchEndRecord)
    return replace(
        search,
        header=msgspec.structs.replace(search.header, args=[], nodes=[]),
        cluster=Cluster(descriptions),
        results=[replace(result, errors=dict.fromkeys(result.errors, "(redacted)")) for result in search.results],
        end=end,
    )


def _decode_round(record: RoundRecord, cluster: Cluster) -> tuple[Round, RoundResult]:
    """Returns the round of a line, and its result.

    Raises:
        ValueError: The round names GPUs that do not exist, or has times for another number of flows.
    """
    source, target = np.array(record.sources, dtype=np.int64), np.array(record.targets, dtype=np.int64)
    flow_count = len(record.times_us)
    gpus = np.concatenate([source, target])
    are_gpus_known = bool(((gpus >= 0) & (gpus < len(cluster.gpu_node))).all())
    if not are_gpus_known or not len(source) == len(target) == flow_count:
        raise ValueError("a round names other flows than it has times for")
    max_iterations = max([1, *map(len, record.times_us)])
    all_times_us = np.full((flow_count, max_iterations), np.nan)
    for flow, times_us in enumerate(record.times_us):
        all_times_us[flow, : len(times_us)] = times_us
    result = RoundResult(times_us=all_times_us, errors=record.errors, took_s=record.took_s)
    load = Load[record.load.upper()]
    return Round(load=load, source=source, target=target, chosen_bytes=record.size_bytes), result
