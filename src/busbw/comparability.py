"""Decides which figures are comparable: measured on like systems, by like methods. Each difference names its fact.

This is the only definition for all commands. `check` compares a run with a reference or with a stated system, `compare`
and `ab` compare two sides, and `history` makes trends of runs. Systems are alike if all system facts agree. Figures of
unlike systems are neither paired nor averaged. Other facts, such as the library, may be the purpose of a comparison.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from busbw.collectives import collectives
from busbw.expect import hosts_of, network_nics_finder, system_of
from busbw.logs.log import Row, Table
from busbw.system import System, find_in_text, systems
from busbw.units import parse_size

FactName = Literal[
    "collective", "ranks", "GPU", "hosts", "NICs", "transport", "method", "launches", "type", "operator", "library",
    "heading", "sweep", "kind", "size", "end", "skew", "neighbor", "transfers", "ranks of the test",
]  # fmt: skip
"""Name of a fact about a run. `ranks` are those of a row's group, `ranks of the test` those of a test of comm_ops.

Some names are only used elsewhere: `heading` and `sweep` label systems in `compare`; `kind`, `size` and `end` describe
a reference in `check`.
"""

SYSTEM_FACTS: tuple[FactName, ...] = ("GPU", "hosts", "NICs", "transport")
"""Facts that describe the system."""
_BLOCKING_FACTS: frozenset[FactName] = frozenset(
    ("collective", "ranks", "ranks of the test", "method", "skew", "neighbor", "transfers", *SYSTEM_FACTS)
)
"""Facts that forbid a comparison if they differ."""
_ASSUMED_FACTS: frozenset[FactName] = frozenset(("method", *SYSTEM_FACTS))
"""Facts that count as equal if only one side states them, with a note."""
_PREFIX_FACTS: frozenset[FactName] = frozenset(("GPU", "library", "NICs"))
"""Facts with names of several lengths, such as a library with and without its version."""

_METHOD_SETTINGS = {
    "aggregated_iterations": ("aggregated_iterations", "1"),
    "agg iters": ("aggregated_iterations", "1"),
    "graph_launches": ("graph_launches", "0"),
    "graph": ("graph_launches", "0"),
    "unalign_elements": ("unalign_elements", "0"),
    "unalign": ("unalign_elements", "0"),
    "blocking": ("blocking", "0"),
    "average": ("average", "1"),
    "one_sided": ("one_sided", "False"),
    "skew": ("skew", ""),
    "share": ("share", "False"),
    "abort": ("abort", "False"),
    "root_every": ("root_every", "0"),
    "work_iterations": ("work_iterations", "2"),
    "resize": ("resize", "factor-2"),
}
"""Settings that change the meaning of a time: name in a log -> (one name for all logs, default value)."""

_FACT_OF_ONE_RUN = re.compile(
    r"run_id|start_time|output_file|records|BUSBW_(?:RENDEZVOUS|STORE|RANK|LOCAL_RANK|NODE|TOKEN_FILE)|NCCL_COMM_ID"
    r"|SLURM_JOB_?ID|OMPI_MCA_\w*(?:uri|jobid|vpid|hnp|session|pid|wdir)\w*"
)
"""Names of settings and variables that differ between any two runs, so that they explain no change."""
_NEIGHBOR_FLAGS = (
    ("--minbytes", "-b", "32M"),
    ("--maxbytes", "-e", "32M"),
    ("--datatype", "-d", "float"),
    ("--op", "-o", "sum"),
    ("--root", "-r", "0"),
)
"""Flags of a neighbor's collective (--with) and their default values."""
_JOINED_VALUE = re.compile(r"(?<!\S)(--\w+(?==)|-\w(?=\S))=?")
"""Flag with its value in the same word: --minbytes=1M, -b1M. The first group is the flag."""
_PORT = re.compile(r"(?<=[\w.\])]):[1-9]\d{3,4}(?!\d)")
"""Number of a TCP port, which the operating system assigns for one run. A NIC's port (mlx5_0:1) has fewer digits."""


class Difference(Struct, frozen=True):
    """One fact in which two sets of figures differ, or that one of them does not state."""

    fact: FactName
    text: str
    is_stated: bool = True
    """False if only one side states the fact, or neither."""


def differences_text(differences: Iterable[Difference]) -> str:
    """Returns the clauses of several differences."""
    return "; ".join(difference.text for difference in differences)


class SystemFacts(Struct, kw_only=True, frozen=True):
    """Facts of the system that a configuration ran on. None: not stated."""

    gpu: str | None = None
    """GPU, or the processor of the host backend. Spelled as in the system description if there is one."""
    hosts: int | None = None
    """Number of hosts of the row's group."""
    nics: str | None = None
    """NICs of a node, if the log states them and the data cross them: '8 x 400 Gb/s'."""
    transport: str | None = None
    """How the host backend moves data. None for GPUs: GPU and hosts determine their fabric."""

    def by_name(self) -> dict[FactName, object]:
        """Returns the facts by the names of differences."""
        return {"GPU": self.gpu, "hosts": self.hosts, "NICs": self.nics, "transport": self.transport}

    @property
    def text(self) -> str:
        """Description of the system. 'unstated system' without any fact."""
        hosts = None if self.hosts is None else f"{self.hosts} host{'s' if self.hosts != 1 else ''}"
        return ", ".join(filter(None, [self.gpu, hosts, self.nics, self.transport])) or "unstated system"


def system_facts(table: Table, row: Row) -> SystemFacts:
    """Returns the system facts of one of the table's rows."""
    nics = network_nics_finder(table)(row)
    return SystemFacts(
        gpu=gpu_of(table),
        hosts=len(hosts_of(table, row)) or None,
        nics=nics.nics.text if nics and nics.is_stated else None,
        transport=transport_of(table),
    )


def gpu_of(table: Table) -> str | None:
    """Returns the device names of the log, or the GPU that its title names. None if neither is known."""
    if table.devices:
        return ", ".join(sorted({_known_gpu_name(name) or name for name in table.devices}))
    system = system_of(table)
    return _gpu_name(system) if system else None


def transport_of(table: Table) -> str | None:
    """Returns how the host backend moved data. None for other backends, and if the log does not state its backend."""
    if table.settings.get("backend") != "host":
        return None
    return table.settings.get("machine.transport", "shared memory")


def method_text(table: Table) -> str:
    """Returns the non-default settings that change the meaning of a time: 'graph_launches 10'. Empty for defaults."""
    non_default = set()
    for log_name, value in table.settings.items():
        if log_name in _METHOD_SETTINGS:
            name, default = _METHOD_SETTINGS[log_name]
            if value != default:
                non_default.add(f"{name} {value}")
    return ", ".join(sorted(non_default))


def method_of(table: Table) -> str | None:
    """Returns the method of a log: its `method_text`, or 'default'. None if the log states no setting of the method."""
    return method_text(table) or ("default" if _METHOD_SETTINGS.keys() & table.settings.keys() else None)


def find_traffic_differences(run: Table, other: Table, *, run_name: str, other_name: str) -> list[Difference]:
    """Returns the differences in the traffic of two runs: distribution (--skew), neighbor (--with), puts (-H)."""
    blockers, _ = find_differences(_traffic_facts(run), _traffic_facts(other), run_name=run_name, other_name=other_name)
    return blockers


def _traffic_facts(table: Table) -> dict[FactName, object]:
    return {
        "skew": table.settings.get("skew", "none"),
        "neighbor": table.settings.get("neighbor", "none"),
        "transfers": "one-sided" if table.settings.get("one_sided") == "True" else "two-sided",
    }


def launches_of(table: Table) -> str | None:
    """Returns how many GPUs a thread launches: '4 per thread'. None if the log does not state it."""
    return f"{table.gpus_per_thread} per thread" if table.gpus_per_thread else None


def without_run_identity(facts: Mapping[str, str]) -> dict[str, str]:
    """Returns settings and variables without what identifies one run: names, jobs and ports."""
    return {name: _PORT.sub("", value) for name, value in facts.items() if not _FACT_OF_ONE_RUN.fullmatch(name)}


def find_differences(
    run_facts: Mapping[FactName, object],
    other_facts: Mapping[FactName, object],
    *,
    run_name: str = "the run",
    other_name: str = "the reference",
) -> tuple[list[Difference], list[Difference]]:
    """Returns the differences that forbid a comparison, and the other differences, for the facts of `other_facts`.

    If a side does not state its collective or ranks, that forbids the comparison. If only one side states a fact of
    `_ASSUMED_FACTS`, that is one of the other differences. Any other unstated fact is no difference.
    """
    blockers: list[Difference] = []
    differences: list[Difference] = []
    for name, other_value in other_facts.items():
        run_value = run_facts.get(name)
        label = device_label(run_facts, other_facts) if name == "GPU" else name
        if run_value is None or other_value is None:
            if name in ("collective", "ranks"):
                blockers.append(Difference(name, f"the {name} of one of them is not known", is_stated=False))
            elif name in _ASSUMED_FACTS and run_value != other_value:
                side_without_fact = run_name if run_value is None else other_name
                differences.append(Difference(name, f"{label} not stated by {side_without_fact}", is_stated=False))
        elif not _are_same(name, run_value, other_value):
            difference = Difference(name, f"{label} {run_value} against {other_value}")
            if name in _BLOCKING_FACTS:
                blockers.append(difference)
            else:
                differences.append(difference)
    return blockers, differences


def device_label(*sides: Mapping[FactName, object]) -> str:
    """Returns the kind of device that all sides ran on: "GPU" or "processor". "device" if the kinds differ."""
    # Only the host backend, which runs on processors, states a transport.
    are_processors = [facts.get("transport") is not None for facts in sides]
    if all(are_processors):
        return "processor"
    return "device" if any(are_processors) else "GPU"


def find_system_difference(table: Table, system: System) -> Difference | None:
    """Returns the difference if the log states another GPU than the system has, or only one of them has GPUs.

    None also if busbw has no description of the log's device: then the user knows better.
    """
    log_system = system_of(table)
    if log_system is None:
        return None
    device_names = ", ".join(table.devices) or log_system.title
    is_listed = any(device.lower() in device_names.lower() for device in system.devices)
    is_same_kind = (log_system.generation == "host") == (system.generation == "host")
    is_processor = system.generation == "host"  # all processors count as equal
    if is_same_kind and (is_processor or is_listed or _gpu_name(log_system) == _gpu_name(system)):
        return None
    return Difference("GPU", f"the log states {device_names}, and the stated system is {system.title}")


def _gpu_name(system: System) -> str:
    return system.title.partition(",")[0]


def _known_gpu_name(text: str) -> str | None:
    """Returns the GPU that a text names, spelled as in the title of its system description. None if unknown."""
    if text in _gpu_names():
        return text
    system = find_in_text(text)
    return _gpu_name(system) if system else None


@lru_cache(maxsize=1)
def _gpu_names() -> frozenset[str]:
    return frozenset(map(_gpu_name, systems().values()))


def _neighbor_key(text: str) -> tuple[object, ...]:
    """Returns the meaning of a value of --with: equal for all spellings of one neighbor."""
    name, *words = text.split() or [""]
    if name not in collectives():
        return (text.lower(),)  # such as compute:matmul
    collective = collectives()[name]
    values = {short: default for _, short, default in _NEIGHBOR_FLAGS}
    short_by_long = {long: short for long, short, _ in _NEIGHBOR_FLAGS}
    # The engine accepts the spellings -b 1M, -b1M, --minbytes 1M and --minbytes=1M. Each flag has a value.
    flags_and_values = _JOINED_VALUE.sub(r"\1 ", " ".join(words)).split()
    for flag, value in zip(flags_and_values[::2], flags_and_values[1::2], strict=False):
        values[short_by_long.get(flag, flag)] = value
    if collective.redop == "never":
        del values["-o"]
    if not collective.has_root:
        del values["-r"]
    return (name, *((flag, parse_size(value) or value) for flag, value in sorted(values.items())))


def _are_same(name: FactName, value: object, other_value: object) -> bool:
    """Compares a fact. Longer spellings of one name count as equal, such as a library with and without version."""
    if name == "neighbor":
        return _neighbor_key(str(value)) == _neighbor_key(str(other_value))
    if name not in _PREFIX_FACTS:
        return value == other_value
    if name == "GPU":
        if ", " in f"{value}{other_value}":
            return value == other_value  # several GPU types
        gpu, other_gpu = _known_gpu_name(str(value)), _known_gpu_name(str(other_value))
        if gpu and other_gpu:
            return gpu == other_gpu  # one name may be a prefix of another: H100, H100 PCIe
    shorter, longer = sorted((str(value).lower(), str(other_value).lower()), key=len)
    # Other letters or digits make another name: L4 and L40S, A10 and A100.
    return longer.startswith(shorter) and not longer[len(shorter) :][:1].isalnum()
