"""ADD A MACHINE TYPE HERE: what a kind of node needs so that a job can be launched on it.

The descriptions are data, src/busbw/launchers/machine_types/*.toml, and each value names where it is from. `load` gives the one of a name,
an alias or a file. What the node's wires carry is said elsewhere: `expectation` is a name of busbw.system.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from busbw.catalog import Catalog
from busbw.errors import UsageError
from busbw.launchers.job.job import PLACE
from busbw.units import plain as shown

_CONTROL = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Controls, among them those that turn the direction of writing: what is shown must be what is there."""
Text = Annotated[str, Meta(min_length=1, pattern=rf"\A[^{_CONTROL}]*\Z")]
"""One line of text."""
Source = Annotated[str, Meta(min_length=1)]
"""In a file a key of its table `sources`; once it is loaded the text of that source."""
MemoryQuantity = Annotated[str, Meta(pattern=r"\A[1-9][0-9]*(Ki|Mi|Gi|Ti)\Z")]
"""A size as Kubernetes writes it: 64Gi."""


class _Sourced(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    source: Source


class SourcedCount(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """How many there are of something."""

    value: Annotated[int, Meta(ge=1)]


class SourcedRate(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Gb/s, one way."""

    value: Annotated[float, Meta(gt=0)]


class SourcedAmount(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """How much memory."""

    value: MemoryQuantity


class HugePages(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Huge pages that a pod asks for."""

    page: MemoryQuantity
    amount: MemoryQuantity


class Resource(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A device that a pod asks for, by the name that its device plugin gives it."""

    name: Annotated[str, Meta(pattern=r"\A[a-z0-9.-]+/[A-Za-z0-9._-]+\Z")]
    count: Annotated[int, Meta(ge=1)]


class EnvironmentVariable(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A variable of the environment."""

    name: Annotated[str, Meta(pattern=r"\A[A-Z][A-Z0-9_]*\Z")]
    value: Text
    reason: Text


class TopologyFile(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The file on the node that NCCL_TOPO_FILE names."""

    path: Annotated[str, Meta(pattern=rf"\A/[^{_CONTROL}]+\Z")]


class Label(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What marks the nodes of this kind in a Kubernetes cluster."""

    name: Text
    value: Text


class Toleration(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A taint of these nodes that a pod accepts."""

    key: Text
    operator: Literal["Equal", "Exists"]
    value: Text | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Capability(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A capability that a container needs, by its name without CAP_."""

    name: Annotated[str, Meta(pattern=r"\A[A-Z_]+\Z")]
    reason: Text


class SlurmOption(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One option of sbatch or srun."""

    option: Annotated[str, Meta(pattern=rf"\A--[a-z][^ {_CONTROL}]*\Z")]
    reason: Text


class Requirement(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What must be there beside what a launcher can ask for."""

    what: Text


class MachineType(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What a kind of node needs. What no source says is absent, and nothing is assumed in its place."""

    title: Text
    aliases: list[Text] = []
    expectation: Text | None = None
    """The name of its description in busbw.system, for `busbw expect --system`."""
    gpus_per_node: SourcedCount | None = None
    nics_per_node: SourcedCount | None = None
    nic_gbit: SourcedRate | None = None
    environment: list[EnvironmentVariable] = []
    """What it takes to work, or to fail where it does not."""
    tuning: list[EnvironmentVariable] = []
    """What it takes to be fast."""
    topology_file: TopologyFile | None = None
    resources: list[Resource] = []
    memory: SourcedAmount | None = None
    shm: SourcedAmount | None = None
    """The size of /dev/shm."""
    huge_pages: HugePages | None = None
    capabilities: list[Capability] = []
    node_labels: list[Label] = []
    tolerations: list[Toleration] = []
    slurm_job: list[SlurmOption] = []
    """Options of the job: sbatch or salloc."""
    slurm_step: list[SlurmOption] = []
    """Options of the step: srun."""
    requires: list[Requirement] = []
    notes: list[Text] = []
    sources: dict[str, Text] = {}
    name: str = ""
    """Of the file; given when it is read."""

    @property
    def nics_text(self) -> str:
        """As people write it, 8 x 400 Gb/s; empty where it is not known."""
        if self.nics_per_node is None or self.nic_gbit is None:
            return ""
        return f"{self.nics_per_node.value} x {self.nic_gbit.value:g} Gb/s"

    @property
    def variables(self) -> dict[str, str]:
        """Everything that a process finds in its environment: environment, tuning and the topology file."""
        found = {setting.name: setting.value for setting in [*self.environment, *self.tuning]}
        return found | ({"NCCL_TOPO_FILE": self.topology_file.path} if self.topology_file else {})


_REMEDY = "compare it with what `busbw launch machine-types NAME` shows of a known one"


def _with_sources(system: MachineType, name: str) -> MachineType:
    """The description with each source's text in place of its key.

    Raises:
        UsageError: A source is named that is not there, is there and not named, or a variable is set twice.
    """
    named: set[str] = set()

    def resolved(value: Any, where: str) -> Any:
        if isinstance(value, list):
            return [resolved(item, f"{where}[{index}]") for index, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        found = {key: resolved(item, f"{where}.{key}") for key, item in value.items() if key != "source"}
        if "source" in value:
            if value["source"] not in system.sources:
                what = f'{name}.toml: {where} names the source "{value["source"]}", which its [sources] lack'
                raise UsageError(what, remedy=_REMEDY)
            named.add(value["source"])
            found["source"] = system.sources[value["source"]]
        return found

    plain = msgspec.to_builtins(system)
    complete = {key: value if key == "sources" else resolved(value, key) for key, value in plain.items()}
    if unused := sorted(system.sources.keys() - named):
        raise UsageError(f"{name}.toml: no value names the source {', '.join(unused)}", remedy=_REMEDY)
    variables = [setting.name for setting in [*system.environment, *system.tuning]]
    variables += ["NCCL_TOPO_FILE"] if system.topology_file else []
    if ours := sorted(set(variables) & set(PLACE)):
        raise UsageError(f"{name}.toml sets {', '.join(ours)}, which the launcher sets", remedy="leave it out")
    if twice := sorted({variable for variable in variables if variables.count(variable) > 1}):
        raise UsageError(f"{name}.toml sets {', '.join(twice)} twice", remedy=_REMEDY)
    return msgspec.convert(complete | {"name": shown(name)}, MachineType)


def _remedy_unknown(known: list[str]) -> str:
    return f"give a .toml file or one of {', '.join(known)}"


_SHELF = Catalog(
    "busbw.launchers",
    MachineType,
    folder="machine_types",
    kind="machine type",
    remedy_malformed=_REMEDY,
    remedy_unknown=_remedy_unknown,
    finish=_with_sources,
)


def systems() -> dict[str, MachineType]:
    """Every machine type that comes with the program, by name."""
    return _SHELF.all


def names() -> list[str]:
    """The names of the machine types that come with the program."""
    return list(_SHELF.all)


def load(name: str) -> MachineType:
    """The machine type of that name or alias, in upper or lower case, or of the TOML file of that path.

    Raises:
        UsageError: There is none, or the file holds something else.
    """
    wanted = name.lower()
    for system in _SHELF.all.values():
        if wanted in {system.name.lower(), *(alias.lower() for alias in system.aliases)}:
            return system
    return _SHELF.find(name)
