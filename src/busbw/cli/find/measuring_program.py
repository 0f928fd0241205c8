"""Measures flows with an external program, which speaks the protocol of `busbw.find.protocol` over pipes."""

import os
import select
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from types import TracebackType

from busbw.cli.find.program_pipes import ProgramPipes
from busbw.errors import BusbwError
from busbw.find.cluster import Cluster
from busbw.find.observations import RoundResult
from busbw.find.protocol import CLUSTER_REQUEST, END_REQUEST, measure_request, parse_cluster, parse_result
from busbw.find.rounds import Round

_POLL_S = 0.2
"""Time between two checks for an interrupt and the time limit."""
_MAX_ANSWER_BYTES = 1 << 28


class MeasuringProgram:
    """A running measuring program, which ends with the context."""

    cluster: Cluster
    """The cluster that the program measures."""
    lost: Mapping[int, str]
    """GPUs that could not start, with the reason of each."""

    def __init__(self, pipes: ProgramPipes, answer_timeout_s: float, check_interrupt: Callable[[], None]) -> None:
        """Asks the program for its cluster.

        Args:
            pipes: Pipes to the program, which are closed at the end.
            answer_timeout_s: Limit for each answer. Infinite if the program has its own limits.
            check_interrupt: Called several times a second during a wait. An exception ends the wait.

        Raises:
            BusbwError: The program answered late, ended, or did not answer with a valid description of its cluster.
        """
        self._pipes, self._timeout_s, self._check_interrupt = pipes, answer_timeout_s, check_interrupt
        self._measurement_number = 0
        self._received = bytearray()
        try:
            self.cluster, self.lost = parse_cluster(self._ask(CLUSTER_REQUEST, "the question for the cluster"))
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> "MeasuringProgram":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stop()

    def measure(self, next_round: Round, iterations: int) -> RoundResult:
        """Returns the times of all flows of a round.

        Raises:
            BusbwError: The program answered late, ended, or did not answer with a valid result of all flows.
        """
        self._measurement_number += 1
        request = measure_request(self._measurement_number, next_round, iterations, self.cluster)
        answer = self._ask(request, f"measurement {self._measurement_number}")
        return parse_result(answer, self._measurement_number, len(next_round.source), self.cluster)

    def _ask(self, request: bytes, question: str) -> bytes:
        """Sends a request and returns the line of the answer. `question` names the request in errors."""
        deadline_s = monotonic() + self._timeout_s
        self._send(request, question, deadline_s)
        while b"\n" not in self._received:
            self._wait(question, deadline_s)
            chunk = os.read(self._pipes.answers, 1 << 20)
            if not chunk:
                raise self._end_error(question)
            self._received += chunk
            if len(self._received) > _MAX_ANSWER_BYTES:
                raise BusbwError(f"the answer to {question} is longer than 256 MiB", remedy="answer with one line")
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received = bytearray(rest)
        # An interrupt may also reach the program, which then answers with an error. The interrupt is the cause, so this
        # check reports the interrupt instead of the error.
        self._check_interrupt()
        return line

    def _send(self, request: bytes, question: str, deadline_s: float) -> None:
        """Writes a request. While the program does not read, waits at most until the deadline."""
        unsent = memoryview(request)
        while unsent:
            try:
                unsent = unsent[os.write(self._pipes.requests, unsent) :]
            except BlockingIOError:
                self._check_interrupt_and_deadline(question, deadline_s)
                select.select([], [self._pipes.requests], [], _POLL_S)
            except BrokenPipeError:
                raise self._end_error(question) from None

    def _wait(self, question: str, deadline_s: float) -> None:
        """Waits until the program has written something or closed its output. An interrupt or the deadline raises."""
        while not select.select([self._pipes.answers], [], [], _POLL_S)[0]:
            self._check_interrupt_and_deadline(question, deadline_s)

    def _check_interrupt_and_deadline(self, question: str, deadline_s: float) -> None:
        self._check_interrupt()
        if monotonic() > deadline_s:
            raise BusbwError(
                f"the measuring program did not answer {question} within {self._timeout_s:g} s",
                remedy="check the program, or raise --answer-timeout",
            )

    def _end_error(self, question: str) -> BusbwError:
        return BusbwError(
            f"the measuring program {self._pipes.end_text()} before it answered {question}",
            remedy="see its messages above",
        )

    def _stop(self) -> None:
        """Asks the program to end, and closes the pipes."""
        with suppress(OSError):
            os.write(self._pipes.requests, END_REQUEST)
        self._pipes.close()
