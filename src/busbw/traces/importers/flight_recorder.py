"""Imports dumps of PyTorch's flight recorder, as JSON or pickle: one file per rank. Its name has the rank."""

import io
import pickle
import re
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

from busbw.errors import UsageError
from busbw.support.files import path_text
from busbw.traces.building import NO_SEQUENCE, Call, RankBuilder, TraceBuilder
from busbw.traces.format import Function
from busbw.traces.importers.json_stream import stream_json
from busbw.traces.importers.recording import open_recording, read_block
from busbw.traces.importers.torch_operations import (
    TorchOperation,
    find_rank_in_name,
    group_index,
    is_operation,
    list_calls,
    read_groups,
)

_LAST_NUMBER = re.compile(r"(\d{1,7})(?:\.[a-z]+)*\Z", re.IGNORECASE)
"""Rank in a file's name without the word "rank": 3 in "dump_3.json.gz"."""
_PAIR = re.compile(r"(?P<function>send|recv) \d{1,7}(?:->|<-)(?P<peer>\d{1,7})")
"""Name of a transfer: "send 0->1", or "recv 0<-1". The peer is 1."""
_BACKENDS = ("nccl", "rccl", "xccl")
_PICKLE = b"\x80"
"""First byte of a pickle."""
_MAX_PICKLE_BYTES = 1 << 28
_MAX_RECORD_ID = 1 << 62
"""A larger number of an entry is damage."""
_KEYS = (b"profiling_name", b"pg_status", b"nccl_comm_state")
"""Keys that only dumps of the flight recorder have."""


class _PlainUnpickler(pickle._Unpickler):  # the unpickler in C reserves memory for any index that the file names
    """Loads only numbers, texts and containers, so that a foreign file cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")

    def persistent_load(self, identity: Any) -> Any:
        raise pickle.UnpicklingError("references are not allowed")


def recognizes(beginning: bytes, path: Path) -> bool:
    """True for a dump of the flight recorder. `path` is not used."""
    is_pickle = beginning[:1] == _PICKLE
    return (is_pickle or beginning.lstrip()[:1] in (b"{", b"[")) and any(key in beginning for key in _KEYS)


def read(builder: TraceBuilder, paths: Sequence[Path]) -> Sequence[str]:
    """Reads the dumps of one job."""
    for path in paths:
        try:
            dump = _load_pickle(path)
        except UsageError as error:
            if len(paths) == 1:
                raise
            builder.add_problem(f"{error.problem}; it is left out")
            continue
        rank = builder.find_or_add_rank(path, path_text(path))
        rank.rank = _rank_of_file(path)
        reader = _RankReader(builder, rank)
        # The description of the groups may follow the entries, so the first pass reads only descriptions.
        for read_item in (reader.read_description, reader.read_entry):
            items = stream_json(builder, path, "entries") if dump is None else _flatten(dump)
            for key, value in items:
                read_item(key, value)
            reader.check_rank()
        rank.start_at_first_time()
    return ["the flight recorder does not tell operator, root, stream and algorithm of operations"]


def _rank_of_file(path: Path) -> int | None:
    """Returns the rank in a file's name. None if it has no number."""
    number = find_rank_in_name(path)
    if number is None and (match := _LAST_NUMBER.search(path.name)):
        return int(match[1])
    return number


def _flatten(dump: Any) -> Iterator[tuple[str, Any]]:
    """Yields the items of a dump as `stream_json` does: each entry is an item."""
    items = dump.items() if isinstance(dump, dict) else [("entries", dump)]
    for key, value in items:
        if key == "entries" and isinstance(value, list):
            yield from (("entries", entry) for entry in value)
        else:
            yield str(key), value


def _load_pickle(path: Path) -> Any:
    """Returns the content of a pickle. None if the file is no pickle.

    Raises:
        UsageError: The file is damaged, too large, or has other objects than plain values.
    """
    with open_recording(path) as file:
        content = read_block(file, _MAX_PICKLE_BYTES + 1)
    if content[:1] != _PICKLE:
        return None
    if len(content) > _MAX_PICKLE_BYTES:
        raise UsageError(f"{path_text(path)} is larger than 256 MiB", remedy="dump it as JSON")
    try:
        return _PlainUnpickler(io.BytesIO(content)).load()
    except Exception as error:  # a damaged pickle raises nearly any exception
        problem = f"{path_text(path)} is not a valid pickle of plain values"
        raise UsageError(problem, remedy="dump it as JSON") from error


class _RankReader:
    """Reads the dump of one rank."""

    def __init__(self, builder: TraceBuilder, rank: RankBuilder) -> None:
        self._builder = builder
        self._rank = rank
        self._groups: dict[str, list[int]] = {}
        """Ranks of process groups, by name."""
        self._group_key: tuple[Any, ...] = ()
        """Values that the entries of one NCCL group share, of the previous entry."""
        self._group_count = 0
        self._is_first = True
        """True before the first entry."""

    def read_description(self, key: str, value: Any) -> None:
        """Reads the ranks of process groups."""
        if key == "pg_config":
            self._groups |= read_groups(value)
        elif key == "comm_lib_version" and isinstance(value, str):
            self._rank.nccl_version = value

    def check_rank(self) -> None:
        """Forgets a rank from the name of the file that is in none of the process groups of the dump."""
        if self._groups and not any(self._rank.rank in members for members in self._groups.values()):
            self._rank.rank = None

    def read_entry(self, key: str, entry: Any) -> None:
        """Reads an operation."""
        if key == "entries":
            try:
                self._add(entry)
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError, IndexError):
                self._builder.add_problem("{count} entries with values of another form are left out")

    def _add(self, entry: dict[str, Any]) -> None:
        self._count_dropped(entry)
        backend, _, title = str(entry["profiling_name"]).rpartition(":")
        if backend and backend not in _BACKENDS:
            self._builder.add_problem("{count} entries of other backends than NCCL, such as gloo, are left out")
            return
        if not is_operation(title):
            return
        name = str(entry["process_group"][0])
        members = self._groups.get(name, [])
        size = len(members)
        if not size:
            self._builder.add_problem("{count} entries of process groups with unknown ranks are left out")
            return
        index = group_index(self._builder, name, size, members)
        if index is None:
            return
        is_pair, sequence = bool(entry.get("is_p2p")), int(entry.get("collective_seq_id", NO_SEQUENCE))
        # The operations of an NCCL group share their number.
        group_key = (name, is_pair, int(entry.get("p2p_seq_id", 0)) if is_pair else sequence)
        if group_key != self._group_key:
            self._group_count += 1
            self._group_key = group_key
        operation = self._operation(entry, title, size)
        duration_ms = entry.get("duration_ms")  # only of operations that ended and were timed
        base = Call(
            function=Function.OTHER,
            communicator=index,
            elements=0,
            group=self._group_count,
            enqueue_ns=int(entry["time_created_ns"]),
            thread=self._rank.number_thread(entry.get("thread_id")),
            duration_ns=round((duration_ms or 0) * 1e6),
        )
        for call in list_calls(self._builder, operation, base):
            self._rank.add(call, NO_SEQUENCE if is_pair else sequence)

    def _count_dropped(self, entry: dict[str, Any]) -> None:
        """Counts the entries before the first one of the dump. The recorder numbers all entries from 0."""
        number, is_first = int(entry.get("record_id", 0)), self._is_first
        self._is_first = False
        if is_first and 0 < number < _MAX_RECORD_ID:
            self._rank.lost_count = number
            self._builder.add_problem(f"the buffer of rank {self._rank.rank} dropped its first {number:,} entries")

    def _operation(self, entry: dict[str, Any], title: str, size: int) -> TorchOperation:
        """Returns the operation of an entry. `size`: number of ranks of the process group."""
        pair = _PAIR.match(title)
        inputs = [prod(shape) for shape in entry["input_sizes"]]
        outputs = [prod(shape) for shape in entry["output_sizes"]]
        # If an operation has one tensor per rank, each tensor is the part for one rank.
        input_splits = inputs if len(inputs) == size > 1 else []
        output_splits = outputs if len(outputs) == size > 1 else []
        return TorchOperation(
            name=title,
            input_splits=input_splits,
            output_splits=output_splits,
            inputs=sum(inputs),
            outputs=sum(outputs),
            datatype=str(next(iter(entry.get("input_dtypes") or entry.get("output_dtypes") or ()), "")),
            size=size,
            peer=int(pair["peer"]) if pair else -1,
        )
