"""Measures flows with an external program, which speaks the protocol of `busbw.find.protocol` over pipes."""

import os
import select
import shlex
import subprocess
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from types import TracebackType

from busbw.errors import SIGNALLED, BusbwError, UsageError
from busbw.find.cluster import Cluster
from busbw.find.observations import RoundResult
from busbw.find.protocol import cluster_request, end_request, measure_request, parse_cluster, parse_result
from busbw.find.rounds import Round

_POLL_S = 0.2
_END_S = 2.0
"""Time for the program to end by itself after the last request, and after SIGTERM."""
_MAX_ANSWER_BYTES = 1 << 28


class MeasuringProgram:
    """A running measuring program. It starts with the object, and ends with the context."""

    def __init__(self, command: str, *, answer_timeout_s: float, check_interrupt: Callable[[], None]) -> None:
        """Starts the program and asks for its cluster.

        Args:
            command: Command line with the quoting of a shell.
            answer_timeout_s: Limit for each answer.
            check_interrupt: Called several times a second during a wait. An exception ends the wait.

        Raises:
            UsageError: The command line is empty or has an open quote.
            BusbwError: The program cannot be started, or its description is invalid.
        """
        self._timeout_s, self._check_interrupt = answer_timeout_s, check_interrupt
        self._number = 0
        self._received = bytearray()
        words = _split(command)
        try:
            # Its own session: Ctrl-C ends the search, which then ends the program.
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise BusbwError(
                f"cannot start {words[0]}: {error.strerror}", remedy="give the path of a measuring program"
            ) from error
        try:
            self.cluster: Cluster = parse_cluster(self._ask(cluster_request(), "the question for the cluster"))
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> "MeasuringProgram":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stop()

    def measure(self, one_round: Round, iterations: int) -> RoundResult:
        """Returns the times of all flows of a round.

        Raises:
            BusbwError: The program answered late, incompletely, with something else, or ended.
        """
        self._number += 1
        request = measure_request(self._number, one_round, iterations, self.cluster)
        answer = self._ask(request, f"measurement {self._number}")
        return parse_result(answer, self._number, len(one_round.source))

    def _ask(self, request: bytes, question: str) -> bytes:
        """Sends a request and returns the line of the answer."""
        deadline_s = monotonic() + self._timeout_s
        self._send(request, question, deadline_s)
        while b"\n" not in self._received:
            self._wait(question, deadline_s)
            chunk = os.read(self._stdout, 1 << 20)
            if not chunk:
                raise self._end_error(question)
            self._received += chunk
            if len(self._received) > _MAX_ANSWER_BYTES:
                raise BusbwError(f"the answer to {question} is longer than 256 MiB", remedy="answer with one line")
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received = bytearray(rest)
        return line

    def _send(self, request: bytes, question: str, deadline_s: float) -> None:
        """Writes a request. The program may read slowly, so the pipe must not block beyond the limit."""
        assert self._process.stdin is not None
        descriptor = self._process.stdin.fileno()
        os.set_blocking(descriptor, False)
        left = memoryview(request)
        while left:
            try:
                left = left[os.write(descriptor, left) :]
            except BlockingIOError:
                self._check_time(question, deadline_s)
                select.select([], [descriptor], [], _POLL_S)
            except BrokenPipeError:
                raise self._end_error(question) from None

    @property
    def _stdout(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _wait(self, question: str, deadline_s: float) -> None:
        while not select.select([self._stdout], [], [], _POLL_S)[0]:
            self._check_time(question, deadline_s)

    def _check_time(self, question: str, deadline_s: float) -> None:
        self._check_interrupt()
        if monotonic() > deadline_s:
            raise BusbwError(
                f"the measuring program did not answer {question} within {self._timeout_s:g} s",
                remedy="check it, or raise --answer-timeout",
            )

    def _end_error(self, question: str) -> BusbwError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        code = self._process.returncode
        if code is None:
            ending = "closed its output"
        elif code < 0:
            ending = f"was ended by signal {-code} (exit code {SIGNALLED - code})"
        else:
            ending = f"ended with exit code {code}"
        return BusbwError(
            f"the measuring program {ending} before it answered {question}", remedy="see its messages above"
        )

    def _stop(self) -> None:
        """Asks the program to end, and ends it if it does not."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            os.write(self._process.stdin.fileno(), end_request())
        with suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()
        for end in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                end()
        self._process.wait()


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--measure-with: {command}: {error}", remedy="close the quote") from error
    if not words:
        raise UsageError("--measure-with: the command is empty", remedy="give a program with its arguments")
    return words
