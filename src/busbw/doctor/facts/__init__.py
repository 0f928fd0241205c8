"""ADD A FACT HERE: values of a machine that are in no file, such as limits of the process.

Write a subclass of `Fact`, and a function that reads the fact on this machine and returns an object of this class. Add
both below. Checks read the fact with `Machine.fact(TYPE)`.
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
    readers: dict[type[Fact], Callable[[], Fact]] = {
        process.Environment: process.read_environment,
        process.Limits: process.read_limits,
        process.DeviceNodes: process.read_device_nodes,
        process.Filesystems: process.read_filesystems,
        process.UserConfiguration: process.read_user_configuration,
        Libraries: lambda: read_libraries(run),
        Gpus: read_gpus,
    }
    return {fact_key(fact_type): _encoder(read) for fact_type, read in readers.items()}


def _encoder(read: Callable[[], Fact]) -> Callable[[], bytes]:
    return lambda: msgspec.json.encode(read())
