"""Pipes to a measuring program. Either this process starts the program, or the program has started this process."""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from busbw.errors import SIGNALLED, BusbwError

_END_S = 2.0
"""Time for a started program to end by itself after its pipes are closed, and after SIGTERM."""


class ProgramPipes:
    """Descriptors of two pipes, which the object owns: one takes requests, the other one brings answers."""

    def __init__(self, requests: int, answers: int) -> None:
        self.requests, self.answers = requests, answers
        os.set_blocking(requests, False)  # the program may read slowly

    def end_text(self) -> str:
        """Returns a verb phrase for the end of the program, after its pipe is closed."""
        return "closed its output"

    def close(self) -> None:
        """Closes both pipes."""
        for descriptor in (self.requests, self.answers):
            with suppress(OSError):
                os.close(descriptor)


class StartedProgram(ProgramPipes):
    """A program that runs until `close`, with the pipes on its standard input and output."""

    def __init__(self, words: Sequence[str]) -> None:
        """Starts the program.

        Raises:
            BusbwError: The program cannot be started.
        """
        request_end, requests = os.pipe()
        answers, answer_end = os.pipe()
        super().__init__(requests, answers)
        try:
            # Its own session: Ctrl-C ends the search, which then ends the program.
            self._process = subprocess.Popen(words, stdin=request_end, stdout=answer_end, start_new_session=True)
        except OSError as error:
            super().close()
            raise BusbwError(
                f"cannot start {words[0]}: {error.strerror}", remedy="give the path of a measuring program"
            ) from error
        finally:
            os.close(request_end)
            os.close(answer_end)

    def end_text(self) -> str:
        """Returns a verb phrase with the exit code or the signal of the program."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        code = self._process.returncode
        if code is None:
            return super().end_text()
        if code < 0:
            return f"was ended by signal {-code} (exit code {SIGNALLED - code})"
        return f"ended with exit code {code}"

    def close(self) -> None:
        """Closes the pipes, and ends the program if it does not end by itself."""
        super().close()
        for end_process in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                end_process()
        self._process.wait()
