"""Imports logs of NCCL and RCCL: NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING."""

import re
from collections import defaultdict, deque
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from busbw.support.files import path_text
from busbw.support.nccl_log_lines import COMMUNICATOR, HEADER
from busbw.traces import format as layout
from busbw.traces.building import Call, RankBuilder, TraceBuilder
from busbw.traces.format import REDUCING, ROOTED, TRANSFERS, Algorithm, Flag, Function, Protocol
from busbw.traces.importers.nccl_communicators import NcclCommunicator, NcclCommunicators, Process
from busbw.traces.importers.nccl_jobs import find_older_processes
from busbw.traces.importers.nccl_times import parse_time_ns
from busbw.traces.importers.recording import open_recording, read_lines
from busbw.units import count_text

_HEADER = re.compile(HEADER)
_CALL = re.compile(
    HEADER + rb"(?P<name>\w{1,40}): opCount (?P<op_count>[0-9a-f]{1,16}) sendbuff (?P<send>\S{1,20})"
    rb" recvbuff (?P<receive>\S{1,20}) count (?P<count>\d{1,20}) datatype (?P<datatype>\d{1,9}) op (?P<redop>-?\d{1,9})"
    rb" root (?P<root>-?\d{1,9}) comm (?P<handle>\S{1,20}) \[nranks=(?P<size>\d{1,9})\] stream (?P<stream>\S{1,20})"
    rb"(?: task (?P<task>\d{1,9}) globalrank (?P<own_rank>\d{1,9}))?"
)
"""Message about a call. After the header: "AllReduce: opCount 5 sendbuff 0x7f00 ... [nranks=8] stream 0x55e0".

Only RCCL adds the task.
"""
_KERNEL = re.compile(
    HEADER + rb"(?P<name>\w{1,40})(?: \[(?P<kind>[A-Za-z ]{1,40})\])?: +(?P<bytes>\d{1,20}) Bytes +-> "
    rb"(?:Algo (?P<algorithm>\w{1,40}) +proto (?P<protocol>\w{1,40})"
    rb"(?:.{0,60}channel\{Lo\.\.Hi\}=\{(?P<low>\d{1,4})\.\.(?P<high>\d{1,4})\})?"
    rb"|Kernel \S{1,200} nchannels (?P<channels>\d{1,4})|cudaMemcpy|RMA)"
)
"""Message with the algorithm of a call: "AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}".

Kinds, such as "[Symmetric]", follow the name of the function. Their messages name a kernel instead of an algorithm.
"""
_INIT = re.compile(rb"NCCL INFO .*comm 0x\w+ rank \d+ n[rR]anks \d")
_VERSION = re.compile(rb"NCCL version (\d{1,3}(?:\.\d{1,3}){1,2})")
_ALGORITHM_BY_KIND = {
    b"Symmetric": Algorithm.SYMMETRIC,
    b"Copy Engine": Algorithm.COPY_ENGINE,
    b"Hierarchical CE": Algorithm.COPY_ENGINE,
}
_IN_PLACE, _OUT_OF_PLACE = int(Flag.IS_IN_PLACE_KNOWN | Flag.IN_PLACE), int(Flag.IS_IN_PLACE_KNOWN)
_MAX_WAITING = 1024
"""Maximum number of calls of a thread that wait for the line with their algorithm."""


class _Waiting(NamedTuple):
    """A call with an algorithm that is not known yet."""

    function: Function
    sizes: tuple[int, ...]
    """Sizes in bytes that the line with the algorithm can state."""
    rank: RankBuilder
    operation: int
    """Number of the operation from `RankBuilder.add`. -1: it was refused."""


@dataclass(eq=False)
class _Thread:
    """State of a calling thread. Its last group is the NCCL group of its last call."""

    group: int = 0
    """Number of the last group."""
    members: set[tuple[Function, int]] = field(default_factory=set)
    """Functions and peers of the calls in the last group."""
    group_key: tuple[bytes, bytes] | None = None
    """Communicator and opCount of the last group. None: the group has one call."""
    waiting: deque[_Waiting] = field(default_factory=lambda: deque(maxlen=_MAX_WAITING))


def recognizes(beginning: bytes, path: Path) -> bool:
    """True for messages about calls. Without a table of nccl-tests, messages about communicators suffice."""
    patterns = (_CALL,) if b"# nThread" in beginning else (_CALL, _INIT)
    lines = (line for line in beginning.splitlines() if b"NCCL" in line)
    return any(pattern.search(line) for line in lines for pattern in patterns)


def read(builder: TraceBuilder, paths: Sequence[Path]) -> Sequence[str]:
    """Reads the logs of one job."""
    older = find_older_processes(paths)
    reader = _Reader(builder, older)
    for path in paths:
        reader.read(path)
    builder.add_problem(
        f"the log has several jobs; {{count}} calls of {count_text(len(older), 'process', 'processes')} of older jobs"
        " are left out",
        reader.older_call_count,
    )
    has_times = any(rank.operations["enqueue_ns"].any() for rank in builder.ranks)
    for rank in builder.ranks:
        rank.nccl_version = reader.version
        rank.start_at_first_time()
    return [
        "the log has times without a time zone; they are read as UTC"
        if has_times
        else "the log has no times of calls with fractions of a second",
        "the log does not show groups; they are inferred from the order of calls",
        "a log shows a call in a CUDA graph once, when it is captured",
    ]


class _Reader:
    """Reads the logs of one job."""

    def __init__(self, builder: TraceBuilder, older: Set[Process]) -> None:
        """`older`: processes that are left out."""
        self.version = ""
        self.older_call_count = 0
        """Calls of the processes that are left out."""
        self._older = older
        self._builder = builder
        self._communicators = NcclCommunicators(builder)
        self._processes: dict[Process, Process] = {}
        """Process with the correct host, by the process as a line names it."""
        self._threads = defaultdict[tuple[Process, bytes], _Thread](_Thread)
        self._group_count = 0
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
            self._read_call(line)
        elif b" Bytes " in line:
            self._read_kernel(line)
        elif b"comm 0x" in line:
            text = line.decode(errors="replace")
            header, match = _HEADER.search(line), COMMUNICATOR.search(text)
            if header and match and (process := self._process(header)) not in self._older:
                self._communicators.read_message(process, match, text, self._source)
        elif not self.version and (version := _VERSION.search(line)):
            self.version = version[1].decode()

    def _process(self, header: re.Match[bytes]) -> Process:
        """Returns the process that wrote a line.

        Other text, such as a progress bar, can directly precede the host. So a host that ends with the host of a known
        process with the same id is this process.
        """
        process = header["host"] or b"", header["pid"] or b""
        if process not in self._processes:
            host, pid = process
            same_pid = (known for known in self._processes.values() if known[1] == pid)
            self._processes[process] = next((known for known in same_pid if host.endswith(known[0])), process)
        return self._processes[process]

    def _thread(self, process: Process, header: re.Match[bytes]) -> _Thread:
        return self._threads[process, header["thread"] or b""]

    def _read_call(self, line: bytes) -> None:
        match = _CALL.search(line)
        has_two_messages = line.count(b" NCCL ") > 1  # two processes wrote into one line
        if match is None or has_two_messages:
            raise ValueError
        process, size = self._process(match), int(match["size"])
        if process in self._older:
            self.older_call_count += 1
            return
        if self._communicators.is_repeated(process):
            self._builder.add_problem("{count} calls are left out, because the log repeats the text of their process")
            return
        communicator = self._communicators.find(process, match["handle"])
        if communicator is None or communicator.size != size:
            own_rank = int(match["own_rank"]) if match["own_rank"] else None
            communicator = self._communicators.add(
                process, match["handle"], match["device"], size, own_rank, self._source
            )
        if communicator is None:
            return
        communicator.has_calls = True
        rank, thread = communicator.rank, self._thread(process, match)
        function, peer = Function.of_nccl(match["name"].decode()), int(match["root"])
        count, datatype = int(match["count"]), int(match["datatype"])
        is_type_known = datatype < len(layout.DATATYPE_NAMES)
        size_bytes = count * int(layout.DATATYPE_BYTES[datatype]) if is_type_known else None
        operation = rank.add(
            Call(
                function=function,
                communicator=communicator.index,
                elements=count,
                datatype=datatype,
                redop=int(match["redop"]) if function in REDUCING else layout.UNKNOWN_BYTE,
                stream=rank.number_stream(match["stream"]),
                peer=peer if function in (*ROOTED, *TRANSFERS) else -1,
                group=self._group(thread, function, peer, match),
                enqueue_ns=parse_time_ns(line[: match.start()]),
                flags=_in_place_flags(function, match, communicator, size_bytes),
                thread=rank.number_thread(match["thread"] or b""),
            )
        )
        prints_kernel = communicator.own_rank == 0 and size > 1 and function not in TRANSFERS
        if prints_kernel and size_bytes is not None:
            has_larger_buffer = function in (Function.ALL_GATHER, Function.REDUCE_SCATTER)
            # The line with the algorithm states the size of the call, or, by NCCL 2.23, of the larger buffer.
            sizes = (size_bytes, size_bytes * size) if has_larger_buffer else (size_bytes,)
            thread.waiting.append(_Waiting(function, sizes, rank, operation))

    def _group(self, thread: _Thread, function: Function, peer: int, call: re.Match[bytes]) -> int:
        """Returns the number of the group of a call, from the lines before it.

        The calls of a group share their opCount. With opCount 0, a collective is a group of its own, because NCCL can
        print 0 for all calls. A repeated transfer with the same peer begins another group. RCCL numbers the calls of a
        group as tasks, from 0.
        """
        key = call["handle"], call["op_count"]
        is_counted = call["op_count"] != b"0"
        if call["task"] is not None:
            is_same_group = int(call["task"]) > 0
        elif function in TRANSFERS:
            is_same_group = key == thread.group_key and (function, peer) not in thread.members
        else:
            is_same_group = key == thread.group_key and is_counted
        if not is_same_group:
            self._group_count += 1
            thread.group = self._group_count
            thread.members.clear()
        thread.group_key = key if function in TRANSFERS or is_counted else None
        thread.members.add((function, peer))
        return thread.group

    def _read_kernel(self, line: bytes) -> None:
        """Reads the selected algorithm, which rank 0 of a communicator prints after the call or its group."""
        match = _KERNEL.search(line)
        if match is None:
            return
        waiting_calls = self._thread(self._process(match), match).waiting
        function, size_bytes = Function.of_nccl(match["name"].decode()), int(match["bytes"])
        for position, waiting in enumerate(waiting_calls):
            if waiting.function == function and size_bytes in waiting.sizes and waiting.operation >= 0:
                _store_algorithm(waiting.rank.operations[waiting.operation], match)
                del waiting_calls[position]
                return


def _store_algorithm(operation: np.void, kernel: re.Match[bytes]) -> None:
    """Stores algorithm, protocol and channels of a kernel in the operation."""
    operation["algorithm"] = _ALGORITHM_BY_KIND.get(kernel["kind"], Algorithm.UNKNOWN)
    if kernel["algorithm"]:
        operation["algorithm"] = Algorithm.of_nccl(kernel["algorithm"].decode())
        operation["protocol"] = Protocol.of_nccl(kernel["protocol"].decode())
    channels = int(kernel["channels"] or 0)
    if kernel["high"]:
        channels = int(kernel["high"]) - int(kernel["low"]) + 1
    operation["channels"] = layout.channels_field(channels)


def _in_place_flags(
    function: Function, call: re.Match[bytes], communicator: NcclCommunicator, size_bytes: int | None
) -> int:
    """Returns the flags that state if the buffers of a call are the same memory."""
    send, receive = (0 if text == b"(nil)" else int(text, 16) for text in call.group("send", "receive"))
    own_rank = communicator.own_rank
    if function in (Function.ALL_REDUCE, Function.REDUCE, Function.BROADCAST):
        in_place_distance = 0
    elif own_rank is None or size_bytes is None:
        return 0
    elif function == Function.ALL_GATHER:
        in_place_distance = own_rank * size_bytes
    elif function == Function.REDUCE_SCATTER:
        in_place_distance = -own_rank * size_bytes
    else:
        return 0
    return _IN_PLACE if send - receive == in_place_distance else _OUT_OF_PLACE
