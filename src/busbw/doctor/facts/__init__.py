"""ADD A FACT HERE: values of a machine that are in no file, such as limits of the process. One module for each fact.

The type of a fact is a `Fact`; its function reads it on this machine. Checks get it with `Machine.fact(TYPE)`.
"""

from collections.abc import Callable

import msgspec

from busbw.doctor.facts.device_nodes import DeviceNodes, read_device_nodes
from busbw.doctor.facts.environment import Environment, read_environment
from busbw.doctor.facts.filesystems import Filesystems, read_filesystems
from busbw.doctor.facts.gpus import Gpus, read_gpus
from busbw.doctor.facts.libraries import Libraries, read_libraries
from busbw.doctor.facts.limits import Limits, read_limits
from busbw.doctor.facts.user_configuration import UserConfiguration, read_user_configuration
from busbw.doctor.model.machine import Fact, fact_key


def facts_of_this_machine(run: Callable[[list[str]], bytes]) -> dict[str, Callable[[], bytes]]:
    """Returns the function that reads each fact as JSON, by its key. `run` returns the output of a command."""
    readers: dict[type[Fact], Callable[[], Fact]] = {
        Environment: read_environment,
        Libraries: lambda: read_libraries(run),
        Limits: read_limits,
        UserConfiguration: read_user_configuration,
        DeviceNodes: read_device_nodes,
        Filesystems: read_filesystems,
        Gpus: read_gpus,
    }
    return {fact_key(fact_type): _encoder(read) for fact_type, read in readers.items()}


def _encoder(read: Callable[[], Fact]) -> Callable[[], bytes]:
    return lambda: msgspec.json.encode(read())
