"""Imports logs of NCCL and RCCL: NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING, and the call trace of NCCL_DEBUG=TRACE."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from busbw.files import path_text
from busbw.nccl_log_lines import COMMUNICATOR, HEADER
from busbw.traces import format as layout
from busbw.traces.format import Algorithm, Flag, Function
from busbw.traces.importers.building import RankBuilder, TraceBuilder
from busbw.traces.importers.nccl_communicators import NcclCommunicator, NcclCommunicators, Process
from busbw.traces.importers.nccl_names import find_algorithm, find_function, find_protocol
from busbw.traces.importers.recording import open_recording, read_lines
from busbw.traces.model import Trace

_HEADER = re.compile(HEADER)
_TIME = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)([.,]\d{1,9})?\] \Z")
_COLLECTIVE = re.compile(
    HEADER + rb"(?P<name>\w{1,40}): opCount ([0-9a-f]{1,16}) sendbuff (\S{1,20}) recvbuff (\S{1,20}) count (\d{1,20})"
    rb" datatype (\d{1,9}) op (-?\d{1,9}) root (-?\d{1,9}) comm (\S{1,20}) \[nranks=(\d{1,9})\] stream (\S{1,20})"
    rb"(?: task (\d{1,9}) globalrank (\d{1,9}))?"
)
_CALL = re.compile(
    rb"(?P<host>[^\s:\[\]]{1,255}):(?P<pid>\d{1,10}):(?P<thread>\d{1,10}) NCCL CALL nccl"
    rb"(?P<name>\w{1,40})\((?P<arguments>[^()]{0,400})\)"
)
_KERNEL = re.compile(
    HEADER + rb"(?P<name>\w{1,40})(?: \[(?P<kind>[A-Za-z ]{1,40})\])?: +(?P<bytes>\d{1,20}) Bytes +-> "
    rb"(?:Algo (?P<algorithm>\w{1,40}) +proto (?P<protocol>\w{1,40})"
    rb"(?:.{0,60}channel\{Lo\.\.Hi\}=\{(?P<low>\d{1,4})\.\.(?P<high>\d{1,4})\})?"
    rb"|Kernel \S{1,200} nchannels (?P<channels>\d{1,4})|cudaMemcpy|RMA)"
)
_INIT = re.compile(rb"NCCL INFO .*comm 0x\w+ rank \d+ n[rR]anks \d")
_VERSION = re.compile(rb"NCCL version (\d{1,3}(?:\.\d{1,3}){1,2})")
_KINDS = {
    b"Symmetric": Algorithm.SYMMETRIC,
    b"Copy Engine": Algorithm.COPY_ENGINE,
    b"Hierarchical CE": Algorithm.COPY_ENGINE,
}
_REDUCTIONS = (Function.ALL_REDUCE, Function.REDUCE_SCATTER, Function.REDUCE)
_PAIRS = (Function.SEND, Function.RECV)
_ROOTED = (Function.BROADCAST, Function.REDUCE, Function.GATHER, Function.SCATTER, *_PAIRS)
_IN_PLACE, _OUT_OF_PLACE = int(Flag.IS_IN_PLACE_KNOWN | Flag.IN_PLACE), int(Flag.IS_IN_PLACE_KNOWN)
_MAX_WAITING = 1024
"""Maximum number of calls of a thread that wait for the line with their algorithm."""


class _Call(NamedTuple):
    """Arguments of a call. Both kinds of lines have them."""

    function: Function
    send_address: int
    receive_address: int
    elements: int
    datatype: int
    redop: int
    root: int
    communicator: bytes
    stream: bytes


class _Waiting(NamedTuple):
    """A call with an algorithm that is not known yet."""

    function: Function
    sizes: tuple[int, ...]
    """Bytes that its line can name."""
    rank: RankBuilder
    operation: int


@dataclass(eq=False)
class _Thread:
    """State of a calling thread."""

    depth: int = 0
    """Number of open groups, as the call trace shows them."""
    group: int = 0
    run: set[tuple[int, int]] = field(default_factory=set)
    """Functions and peers of the inferred group."""
    run_key: tuple[bytes, bytes] | None = None
    """Communicator and opCount of the inferred group."""
    last_call: _Call | None = None
    """Last call by its line of subsystem COLL. The call trace repeats it."""
    waiting: deque[_Waiting] = field(default_factory=lambda: deque(maxlen=_MAX_WAITING))


def recognizes(beginning: bytes, path: Path) -> bool:
    """True if the text has messages about calls, or about communicators in no log of a test. `path` is not used."""
    patterns = (_COLLECTIVE, _CALL) if b"# nThread" in beginning else (_COLLECTIVE, _CALL, _INIT)
    lines = (line for line in beginning.splitlines() if b"NCCL" in line)
    return any(pattern.search(line) for line in lines for pattern in patterns)


def read(paths: Sequence[Path]) -> Trace:
    """Reads the logs of one job.

    Raises:
        UsageError: No log has a call, or one cannot be read.
    """
    builder = TraceBuilder(paths, "NCCL log")
    reader = _Reader(builder)
    for path in paths:
        reader.read(path)
    return builder.build(*reader.finish())


class _Reader:
    """Reads the logs of one job."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._communicators = NcclCommunicators(builder)
        self._processes: dict[Process, Process] = {}
        self._threads: dict[tuple[Process, bytes], _Thread] = {}
        self._ranks: dict[RankBuilder, None] = {}
        self._group_count = 0
        self._has_call_trace = False
        self._simulated_groups: set[int] = set()
        self._version = ""
        self._source = ""

    def read(self, path: Path) -> None:
        """Reads a file."""
        self._source = path_text(path)
        with open_recording(path) as file:
            for line in read_lines(file):
                try:
                    self._read_line(line)
                except ValueError:  # an address or number of another form
                    self._builder.add_problem("{count} lines of the log are damaged")

    def _read_line(self, line: bytes) -> None:
        if b": opCount " in line:
            self._read_collective(line)
        elif b" NCCL CALL " in line:
            self._read_call(line)
        elif b" Bytes " in line:
            self._read_kernel(line)
        elif b"comm 0x" in line:
            text = line.decode(errors="replace")
            header, match = _HEADER.search(line), COMMUNICATOR.search(text)
            if header and match:
                process = self._process(header["host"], header["pid"])
                self._communicators.read_message(process, match, text, self._source)
        elif not self._version and (version := _VERSION.search(line)):
            self._version = version[1].decode()

    def _process(self, host: bytes | None, pid: bytes | None) -> Process:
        """Returns the writer of a line. A host with other text directly before it, as of a progress bar, is found."""
        process = host or b"", pid or b""
        if process not in self._processes:
            known = (each for each in self._processes.values() if each[1] == process[1])
            self._processes[process] = next((each for each in known if process[0].endswith(each[0])), process)
        return self._processes[process]

    def _thread(self, process: Process, name: bytes) -> _Thread:
        return self._threads.get((process, name)) or self._threads.setdefault((process, name), _Thread())

    def _read_collective(self, line: bytes) -> None:
        match = _COLLECTIVE.search(line)
        if match is None or line.count(b" NCCL ") > 1:  # two processes wrote into one line
            raise ValueError
        host, pid, thread_name, device, _, _, name, op_count, *arguments = match.groups()
        *arguments, size, stream, task, own_rank = arguments
        send, receive, count, datatype, redop, root, handle = arguments
        process = self._process(host, pid)
        numbers = (int(count), int(datatype), int(redop), int(root))
        function = find_function(name.decode())
        call = _Call(function, _address(send), _address(receive), *numbers, handle, stream)
        communicator = self._communicators.find(process, handle)
        if communicator is None or communicator.size != int(size):
            known_rank = int(own_rank) if own_rank else None
            communicator = self._communicators.infer(process, handle, int(size), known_rank, device, self._source)
        if communicator is not None:
            thread = self._thread(process, thread_name or b"")
            thread.last_call = call
            group = thread.group if thread.depth else self._inferred_group(thread, call, op_count, task)
            self._add(communicator, call, thread, thread_name or b"", group, _time_ns(line[: match.start()]))

    def _read_call(self, line: bytes) -> None:
        match = _CALL.search(line)
        if match is None:
            raise ValueError
        process = self._process(match["host"], match["pid"])
        thread, name = self._thread(process, match["thread"]), match["name"]
        arguments = [text.strip() for text in match["arguments"].split(b",")]
        self._has_call_trace = True
        if name == b"GroupStart":
            self._group_count += thread.depth == 0
            thread.group = thread.group if thread.depth else self._group_count
            thread.depth += 1
        elif name in (b"GroupEnd", b"GroupSimulateEnd"):
            thread.depth = max(0, thread.depth - 1)
            if name == b"GroupSimulateEnd":
                self._simulated_groups.add(thread.group)
        elif name.startswith(b"Comm"):
            self._communicators.read_call(process, name.decode(), arguments, self._source)
        elif len(arguments) == 8:
            send, receive, count, datatype, redop, root, handle, stream = arguments
            numbers = (int(count), int(datatype), int(redop), int(root))
            function = find_function(name.decode())
            call = _Call(function, _address(send), _address(receive), *numbers, handle, stream)
            if call == thread.last_call:  # its line of subsystem COLL precedes
                thread.last_call = None
                return
            communicator = self._communicators.find(process, handle)
            if communicator is None:
                self._builder.add_problem("{count} calls on communicators that the log does not introduce are left out")
                return
            group = thread.group if thread.depth else 0
            self._add(communicator, call, thread, match["thread"], group, _time_ns(line[: match.start()]))

    def _inferred_group(self, thread: _Thread, call: _Call, op_count: bytes, task: bytes | None) -> int:
        """Returns the group of a call from the lines before it. 0 if it cannot be in one.

        The calls of a group share their opCount, and one process does not send twice to the same rank in a group. RCCL
        numbers the calls of a group.
        """
        key, member = (call.communicator, op_count), (int(call.function), call.root)
        if task is not None:
            continues = int(task) > 0
        elif call.function in _PAIRS:
            continues = key == thread.run_key and member not in thread.run
        else:
            continues = key == thread.run_key and op_count != b"0"
        if not continues:
            self._group_count += 1
            thread.group = self._group_count
            thread.run.clear()
        thread.run_key = key if call.function in _PAIRS or op_count != b"0" else None
        thread.run.add(member)
        return thread.group

    def _add(
        self, communicator: NcclCommunicator, call: _Call, thread: _Thread, thread_name: bytes, group: int, time_ns: int
    ) -> None:
        rank, function = communicator.rank, call.function
        self._ranks[rank] = None
        has_type = 0 <= call.datatype < len(layout.DATATYPE_NAMES)
        size_bytes = call.elements * int(layout.DATATYPE_BYTES[call.datatype]) if has_type else None
        operation = rank.add(
            function,
            communicator.index,
            call.elements,
            datatype=call.datatype,
            redop=call.redop if function in _REDUCTIONS else layout.UNKNOWN_BYTE,
            stream=rank.stream(call.stream),
            peer=call.root if function in _ROOTED else -1,
            group=group,
            enqueue_ns=time_ns,
            flags=_in_place_flags(call, communicator, size_bytes),
            thread=rank.thread(thread_name),
        )
        if communicator.own_rank == 0 and communicator.size > 1 and size_bytes is not None and function not in _PAIRS:
            sizes = (size_bytes, size_bytes * communicator.size)  # NCCL 2.23 names the larger buffer
            is_part = function in (Function.ALL_GATHER, Function.REDUCE_SCATTER)
            thread.waiting.append(_Waiting(function, sizes if is_part else sizes[:1], rank, operation))

    def _read_kernel(self, line: bytes) -> None:
        """Reads the selected algorithm, which rank 0 of a communicator prints after the call or its group."""
        match = _KERNEL.search(line)
        if match is None:
            return
        thread = self._thread(self._process(match["host"], match["pid"]), match["thread"] or b"")
        function, size = find_function(match["name"].decode()), int(match["bytes"])
        for place, waiting in enumerate(thread.waiting):
            if waiting.function == function and size in waiting.sizes and waiting.operation >= 0:
                channels = int(match["channels"] or 0)
                if match["high"]:
                    channels = int(match["high"]) - int(match["low"]) + 1
                kind = _KINDS.get(match["kind"], Algorithm.UNKNOWN)
                algorithm = find_algorithm(match["algorithm"].decode()) if match["algorithm"] else kind
                protocol = find_protocol((match["protocol"] or b"").decode())
                waiting.rank.set_kernel(waiting.operation, algorithm, protocol, channels)
                del thread.waiting[place]
                return

    def finish(self) -> Iterator[str]:
        """Completes the operations after the last file. Yields what such a log does not tell."""
        times = [rank.operations["enqueue_ns"] for rank in self._ranks]
        has_times = any(each.any() for each in times)
        del times
        for rank in self._ranks:
            rank.nccl_version = self._version
            is_simulated = np.isin(rank.operations["group"], list(self._simulated_groups))
            rank.start_at_first_time()
            if is_simulated.any():
                rank.select(np.flatnonzero(~is_simulated))
        if has_times:
            yield "the log has times without a time zone; they are read as UTC"
        else:
            yield "the log has no times of calls with fractions of a second"
        if not self._has_call_trace:
            yield "the log does not show groups; they are inferred from the order of calls"
        yield "a log shows a call in a CUDA graph once, when it is captured"


def _address(text: bytes) -> int:
    return 0 if text == b"(nil)" else int(text, 16)


def _in_place_flags(call: _Call, communicator: NcclCommunicator, size_bytes: int | None) -> int:
    """Returns if the buffers of a call are the same memory."""
    function, send, receive, own = call.function, call.send_address, call.receive_address, communicator.own_rank
    if function in (Function.ALL_REDUCE, Function.REDUCE, Function.BROADCAST):
        distance = 0
    elif function == Function.ALL_GATHER and own is not None and size_bytes is not None:
        distance = own * size_bytes
    elif function == Function.REDUCE_SCATTER and own is not None and size_bytes is not None:
        distance = -own * size_bytes
    else:
        return 0
    return _IN_PLACE if send - receive == distance else _OUT_OF_PLACE


def _time_ns(prefix: bytes) -> int:
    """Returns the time before a message. 0 if it is missing, or has no fractions of a second."""
    match = _TIME.search(prefix) if prefix.endswith(b"] ") else None
    if match is None or match[2] is None:
        return 0
    return _second(match[1]) * 1_000_000_000 + int(match[2][1:].ljust(9, b"0"))


@lru_cache(maxsize=64)
def _second(text: bytes) -> int:
    return int(datetime.strptime(text.decode(), "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc).timestamp())
