"""Opens this machine or a capture for an examination, and makes a capture of all that was read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from busbw.doctor.facts import facts_of_this_machine
from busbw.doctor.sources.capture import archive_bytes, capture_of, read_capture
from busbw.doctor.sources.commands import Commands
from busbw.doctor.sources.recording import Recording
from busbw.doctor.sources.redaction import names_of_this_machine, redact
from busbw.doctor.sources.this_machine import ThisMachine
from busbw.support.termination_signals import cleaned_up_by


@contextmanager
def open_machine(root: Path | None) -> Iterator[Recording]:
    """Yields a tree that keeps what checks read: from a capture, or from this machine if `root` is None.

    At the end, or on a signal, kills the commands that run on this machine.

    Raises:
        UsageError: The capture cannot be read.
    """
    if root is not None:
        yield Recording(read_capture(root))
        return
    commands = Commands()
    machine = ThisMachine(facts_of_this_machine(commands.output), commands=commands)
    try:
        with cleaned_up_by(commands.close):
            yield Recording(machine)
    finally:
        commands.close()


def redacted_archive(recording: Recording, *, is_this_machine: bool) -> bytes:
    """Returns a capture of all that was read, without names and addresses, as an archive."""
    names = names_of_this_machine() if is_this_machine else ()
    return archive_bytes(redact(capture_of(recording), names))
