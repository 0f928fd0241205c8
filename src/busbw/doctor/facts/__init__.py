"""ADD A FACT HERE: values of a machine that are in no file, such as limits of the process.

Write a subclass of `Fact`, and a function that reads the fact on this machine and returns an object of this class. Add
both to `process.READERS` if the fact is about the process, otherwise to `module_readers` below. Checks read the fact
with `Machine.fact(TYPE)`.
"""

from collections.abc import Callable

import msgspec

from busbw.doctor.facts import process
from busbw.doctor.facts.gpus import Gpus, read_gpus
from busbw.doctor.facts.libraries import Libraries, read_libraries
from busbw.doctor.model.machine import Fact, fact_key


def facts_of_this_machine(run: Callable[[list[str]], bytes]) -> dict[str, Callable[[], bytes]]:
    """Returns functions by the key of their fact. Each reads its fact and returns it as JSON.

    `run` returns the output of a command.
    """
    module_readers: dict[type[Fact], Callable[[], Fact]] = {Libraries: lambda: read_libraries(run), Gpus: read_gpus}
    readers = process.READERS | module_readers
    return {fact_key(fact_type): _encoder(read) for fact_type, read in readers.items()}


def _encoder(read: Callable[[], Fact]) -> Callable[[], bytes]:
    return lambda: msgspec.json.encode(read())
