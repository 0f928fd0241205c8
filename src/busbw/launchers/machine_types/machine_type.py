"""ADD A MACHINE TYPE HERE: settings that a job needs on one type of node, for `busbw launch --machine-type`.

The descriptions are data, src/busbw/launchers/machine_types/*.toml. Each setting and hardware figure names its source.
`load` finds a machine type by name, alias or file. The link speeds for predictions are in another catalog,
`busbw.system`. The key `expectation` of a description names its system in that catalog.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from busbw.engine import WORLD_VARIABLES
from busbw.errors import UsageError
from busbw.support.catalog import Catalog
from busbw.system import SYSTEM_VARIABLE
from busbw.units import plain

_CONTROL = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Control characters, including those that change the writing direction and so could disguise a shown value."""
Text = Annotated[str, Meta(min_length=1, pattern=rf"\A[^{_CONTROL}]*\Z")]
"""One line of text."""
Source = Annotated[str, Meta(min_length=1)]
"""In a file: a key of its table `sources`. After loading: the text of that source."""
MemoryQuantity = Annotated[str, Meta(pattern=r"\A[1-9][0-9]*(Ki|Mi|Gi|Ti)\Z")]
"""Memory size in the syntax of Kubernetes, such as 64Gi."""


class _Sourced(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Base of all values: names where a value was published."""

    source: Source


class SourcedCount(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A count with its source."""

    value: Annotated[int, Meta(ge=1)]


class SourcedRate(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A rate in Gb/s per direction, with its source."""

    value: Annotated[float, Meta(gt=0)]


class SourcedAmount(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """An amount of memory with its source."""

    value: MemoryQuantity


class HugePages(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Huge pages that a pod requests."""

    page: MemoryQuantity
    """Size of one page."""
    amount: MemoryQuantity
    """Total size."""


class Resource(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A device that a pod requests, with its device plugin's resource name."""

    name: Annotated[str, Meta(pattern=r"\A[a-z0-9.-]+/[A-Za-z0-9._-]+\Z")]
    count: Annotated[int, Meta(ge=1)]


class EnvironmentVariable(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """An environment variable with the reason for its value."""

    name: Annotated[str, Meta(pattern=r"\A[A-Z][A-Z0-9_]*\Z")]
    value: Text
    reason: Text


class TopologyFile(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A topology file on the node, for NCCL_TOPO_FILE."""

    path: Annotated[str, Meta(pattern=rf"\A/[^{_CONTROL}]+\Z")]


class Label(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A node label of this machine type in Kubernetes."""

    name: Text
    value: Text


class Toleration(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A toleration for a taint of these nodes."""

    key: Text
    operator: Literal["Equal", "Exists"]
    value: Text | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Capability(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A Linux capability that a container needs, without the prefix CAP_."""

    name: Annotated[str, Meta(pattern=r"\A[A-Z_]+\Z")]
    reason: Text


class SlurmOption(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One option of a Slurm job."""

    option: Annotated[str, Meta(pattern=rf"\A--[a-z][^ {_CONTROL}]*\Z")]
    reason: Text


class Requirement(_Sourced, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A requirement that the user must fulfill, because no launcher can request it from the scheduler."""

    what: Text


class MachineType(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename={"system": "expectation"}):
    """Description of a machine type. A value that no source states is None or empty, so the launcher omits it."""

    title: Text
    aliases: list[Text] = []
    system: Text | None = None
    """Name of the matching system in `busbw.system`, for `busbw expect --system NAME`. In files: `expectation`."""
    gpus_per_node: SourcedCount | None = None
    nics_per_node: SourcedCount | None = None
    nic_gbit: SourcedRate | None = None
    environment: list[EnvironmentVariable] = []
    """Variables that are necessary for correct operation, or that turn a silent fallback into an error."""
    tuning: list[EnvironmentVariable] = []
    """Variables that improve performance."""
    topology_file: TopologyFile | None = None
    resources: list[Resource] = []
    memory: SourcedAmount | None = None
    shm: SourcedAmount | None = None
    """Size of /dev/shm."""
    huge_pages: HugePages | None = None
    capabilities: list[Capability] = []
    node_labels: list[Label] = []
    tolerations: list[Toleration] = []
    slurm_job: list[SlurmOption] = []
    """Options of the job in addition to the launcher's, such as those of sbatch."""
    requires: list[Requirement] = []
    notes: list[Text] = []
    sources: dict[str, Text] = {}
    name: str = ""
    """Name of the file, set when it is loaded."""

    @property
    def nics_text(self) -> str:
        """NICs of a node as text, such as "8 x 400 Gb/s". Empty if unknown."""
        if self.nics_per_node is None or self.nic_gbit is None:
            return ""
        return f"{self.nics_per_node.value} x {self.nic_gbit.value:g} Gb/s"

    @property
    def variables(self) -> dict[str, str]:
        """All environment variables of a process: environment, tuning, the topology file and the system's name."""
        variables = {variable.name: variable.value for variable in [*self.environment, *self.tuning]}
        if self.topology_file:
            variables["NCCL_TOPO_FILE"] = self.topology_file.path
        if self.system:
            variables[SYSTEM_VARIABLE] = self.system
        return variables


_REMEDY = "compare with a known type: `busbw launch machine-types NAME`"


def _check_and_resolve(machine_type: MachineType, name: str) -> MachineType:
    """Checks a description that was read from a file, and replaces each source key by its text.

    Raises:
        UsageError: A source is unknown or unused, or a variable is set twice or reserved.
    """
    resolved = _with_source_texts(machine_type, name)
    variables = [variable.name for variable in [*machine_type.environment, *machine_type.tuning]]
    if machine_type.topology_file:
        variables.append("NCCL_TOPO_FILE")
    if reserved := sorted(set(variables) & set(WORLD_VARIABLES)):
        raise UsageError(f"{name}.toml sets {', '.join(reserved)}, which the launcher sets", remedy="remove it")
    if twice := sorted({variable for variable in variables if variables.count(variable) > 1}):
        raise UsageError(f"{name}.toml sets {', '.join(twice)} twice", remedy=_REMEDY)
    return msgspec.convert(resolved | {"name": plain(name)}, MachineType)


def _with_source_texts(machine_type: MachineType, name: str) -> dict[str, Any]:
    """Returns the fields of a description, with the text of each source instead of its key.

    Raises:
        UsageError: A source is unknown or unused.
    """
    used_sources: set[str] = set()

    def resolve(value: Any, path: str) -> Any:
        """Resolves the sources in a value. `path` is the place of the value in the file, such as "tuning[0]"."""
        if isinstance(value, list):
            return [resolve(element, f"{path}[{index}]") for index, element in enumerate(value)]
        if not isinstance(value, dict):
            return value
        table = {key: resolve(entry, f"{path}.{key}") for key, entry in value.items() if key != "source"}
        if "source" in value:
            if value["source"] not in machine_type.sources:
                message = f'{name}.toml: {path} names the source "{value["source"]}", which [sources] does not define'
                raise UsageError(message, remedy=_REMEDY)
            used_sources.add(value["source"])
            table["source"] = machine_type.sources[value["source"]]
        return table

    fields = msgspec.to_builtins(machine_type)
    resolved = {key: value if key == "sources" else resolve(value, key) for key, value in fields.items()}
    if unused := sorted(machine_type.sources.keys() - used_sources):
        raise UsageError(f"{name}.toml: no value uses the source {', '.join(unused)}", remedy=_REMEDY)
    return resolved


_CATALOG = Catalog(
    "busbw.launchers",
    MachineType,
    folder="machine_types",
    kind="machine type",
    remedy_malformed=_REMEDY,
    remedy_unknown=lambda known: f"a .toml file or one of {', '.join(known)}",
    finish=_check_and_resolve,
)


def built_in_types() -> dict[str, MachineType]:
    """All built-in machine types by name."""
    return _CATALOG.all


def find_built_in(name: str) -> MachineType | None:
    """Returns the built-in machine type with this name or alias (case-insensitive). None if there is no such type."""
    lower_name = name.lower()
    for machine_type in _CATALOG.all.values():
        if lower_name in {machine_type.name.lower(), *(alias.lower() for alias in machine_type.aliases)}:
            return machine_type
    return None


def load(name: str) -> MachineType:
    """Returns the machine type with this name or alias (case-insensitive), or reads the TOML file at this path.

    Raises:
        UsageError: No machine type has this name, or the file is invalid.
    """
    return find_built_in(name) or _CATALOG.find(name)
