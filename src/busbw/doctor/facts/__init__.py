"""ADD A FACT HERE: values of a machine that are in no file, such as limits of the process.

The type of a fact is a `Fact`; its function reads it on this machine. Checks get it with `Machine.fact(TYPE)`.
Add type and function of a fact of the process to `process.READERS`, and of any other fact to `module_readers` below.
"""

from collections.abc import Callable

import msgspec

from busbw.doctor.facts import process
from busbw.doctor.facts.gpus import Gpus, read_gpus
from busbw.doctor.facts.libraries import Libraries, read_libraries
from busbw.doctor.model.machine import Fact, fact_key


def facts_of_this_machine(run: Callable[[list[str]], bytes]) -> dict[str, Callable[[], bytes]]:
    """Returns the function that reads each fact as JSON, by its key. `run` returns the output of a command."""
    module_readers: dict[type[Fact], Callable[[], Fact]] = {Libraries: lambda: read_libraries(run), Gpus: read_gpus}
    readers = process.READERS | module_readers
    return {fact_key(fact_type): _encoder(read) for fact_type, read in readers.items()}


def _encoder(read: Callable[[], Fact]) -> Callable[[], bytes]:
    return lambda: msgspec.json.encode(read())
