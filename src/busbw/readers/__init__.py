"""ADD A READER HERE: logs of this and other tools become rows.

A reader is one module with two functions: `recognises(text)`, which looks at the beginning of a file, and
`read(path) -> Log`. It takes only what it is sure of, and says what it left out.
"""

from pathlib import Path
from typing import Protocol

from busbw.errors import UsageError
from busbw.logs import Log
from busbw.readers import nccl_tests_text, own_records


class Reader(Protocol):
    """What a reader's module has."""

    def recognises(self, beginning: str) -> bool:
        """Whether a file that begins so is this reader's."""

    def read(self, path: Path) -> Log:
        """The whole file."""


READERS: dict[str, Reader] = {"records": own_records, "nccl-tests text": nccl_tests_text}
"""Every reader by name, tried in this order; tests loop over them."""

_LOOKED_AT_BYTES = 65536


def read(path: Path) -> Log:
    """Reads a log with the first reader that recognises it.

    Raises:
        UsageError: The file cannot be read, or no reader knows it.
    """
    try:
        with path.open("rb") as file:
            beginning = file.read(_LOOKED_AT_BYTES).decode("utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", remedy="give a file that can be read") from error
    for reader in READERS.values():
        if reader.recognises(beginning):
            return reader.read(path)
    raise UsageError(f"no reader knows the format of {path}", remedy=f"give one of: {', '.join(READERS)}")


__all__ = ["READERS", "Log", "Reader", "read"]
