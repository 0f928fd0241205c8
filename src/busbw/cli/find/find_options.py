"""Values of the options of `busbw find`, and a check for options that exclude each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from busbw.errors import UsageError
from busbw.simulator.fabric import Layout


@dataclass(frozen=True, kw_only=True)
class FindOptions:
    """One value per option, by the name of its parameter. A value is None or empty if its option is not given."""

    shape: str | None
    fault_texts: tuple[str, ...]
    layout: Layout | None
    nodes_per_leaf: int | None
    oversubscription: float | None
    program: str | None
    logs: tuple[str, ...]
    descriptors: str | None
    """Descriptors for answers and for requests, such as "3,4". The measuring program that started this process has the
    other ends."""
    also_json: bool
    """True to print the JSON object after the text, for the launcher of the job."""
    backend: str | None
    ranks: int | None
    answer_timeout_s: float
    topology: Path | None
    size_bytes: int | None
    pairs: bool
    max_rounds: int | None
    seed: int
    system_name: str | None
    write_hostfile: Path | None
    junit: Path | None
    prometheus: Path | None
    records_path: Path | None
    store: Path | None
    as_json: bool

    @property
    def is_simulated(self) -> bool:
        """True if the cluster is simulated."""
        return self.shape is not None

    @property
    def is_in_job(self) -> bool:
        """True if this process searches within a job of a launcher."""
        return self.descriptors is not None

    @property
    def exports(self) -> Mapping[str, Path | None]:
        """Files for the result, by their flags."""
        return {"--write-hostfile": self.write_hostfile, "--junit": self.junit, "--prometheus": self.prometheus}

    def reject_contradictions(self) -> None:
        """Refuses several sources of flows, and options that have no effect on the source.

        Raises:
            UsageError: Options contradict each other.
        """
        sources = {"--simulate": self.shape, "--measure-with": self.program, "--logs": self.logs}
        stated_sources = [name for name, value in sources.items() if value]
        if len(stated_sources) > 1:
            raise UsageError(f"{' and '.join(stated_sources)} exclude each other", remedy="give only one")
        simulation: dict[str, object] = {
            "--fault": self.fault_texts,
            "--layout": self.layout,
            "--nodes-per-leaf": self.nodes_per_leaf,
            "--oversubscription": self.oversubscription,
        }
        measurement: dict[str, object] = {
            "--pairs": self.pairs,
            "--max-rounds": self.max_rounds,
            "--size": self.size_bytes,
            "--topology": self.topology,
            "--system": self.system_name,
            "--records": self.records_path,
            "--store": self.store,
        }
        if (self.backend or self.ranks) and stated_sources:
            raise UsageError("--backend and --ranks are only for this machine", remedy="remove them")
        if not self.shape:
            _reject(simulation, "{} is only for --simulate")
        if self.logs:
            _reject(measurement, "--logs measures nothing, so {} has no effect")


def _reject(options: Mapping[str, object], message: str) -> None:
    """Refuses options with a value. `{}` in the message stands for the first of them."""
    given = [name for name, value in options.items() if value]
    if given:
        raise UsageError(message.format(given[0]), remedy="remove it")
