"""Measures what `search` asks for, with the engine's own programs. Every block is kept: a second start goes on."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from busbw import engine, records
from busbw.ab import BlockEndedError, Measurement, SideSpec
from busbw.ab.blocks import Block, block_of, median_us
from busbw.errors import BusbwError, ExitCode
from busbw.fastpath import search
from busbw.fastpath.search import Decision, FinalComparison, MethodConfig, Times
from busbw.fastpath.table import DIRECT, METHOD_VARIABLE, NCCL, TABLE_VARIABLE, TableRange, table_text
from busbw.files import replace_file
from busbw.logs import PLACEMENT_WORDS, Placement
from busbw.units import size_text

REDUCING = {"all_reduce", "reduce_scatter"}

FLAGS = ("-n", "100", "-w", "5", "-T", "60")
GRAPH_FLAGS = ("-G", "2")
"""The device's time is of one launch of a graph behind the gate: of 100 operations, so that its start hardly shows."""
IN_WINDOWS = ("-R", "2")
UNCHECKED, CHECKED = ("-c", "0"), ("-c", "1")

Way: TypeAlias = MethodConfig | list[TableRange] | None
"""What a block measures: one shape at every size, a table, or (None) plain NCCL."""


class WrongDataError(BusbwError):
    """The fast path computed something wrong."""


class NotAcceleratedError(BusbwError):
    """The fast path had no part in what was to be measured of it."""


class NoWindowsError(BusbwError):
    """NCCL makes no symmetric windows here, or none that the fast path reaches."""


@dataclass(frozen=True)
class TuningTarget:
    """What is tuned."""

    library: Path
    ranks: int
    dtype: str
    """Of the collectives that reduce; the others move bytes."""
    sizes: tuple[int, ...]
    in_windows: bool = False
    """Whether all is measured with buffers in symmetric windows, NCCL too."""

    @property
    def folder_name(self) -> str:
        """Where its records go."""
        return f"{self.ranks}-ranks" + ("-windows" if self.in_windows else "")

    def of(self, name: str) -> str:
        """A collective's part of it, for people."""
        return f"{name}, {self.ranks} ranks" + (", in windows" if self.in_windows else "")


@dataclass
class TableTuner:
    """Tunes one number of ranks, in windows or not, a collective at a time."""

    target: TuningTarget
    folder: Path
    say: Callable[[str], None] = lambda _text: None
    blocks_kept: int = 0
    """Those that a start before this one had measured."""
    left_out: list[str] = field(default_factory=list)
    """A sentence for each shape that could not be measured."""

    def collective(self, name: str) -> list[Decision]:
        """Decides every size of a collective.

        Raises:
            BlockEndedError: It was interrupted, or NCCL itself could not be measured.
            NoWindowsError: There are no windows to tune for.
            HandedOverError: The fast path does nothing here.
            WrongDataError: Data were wrong where the fast path had a part.
        """
        sizes = self.target.sizes
        nccl = self._nccl_first(name)
        measured: dict[MethodConfig, Times] = {}
        for shape in search.first_shapes(name, in_windows=self.target.in_windows):
            self._try(name, shape.text, shape, dict.fromkeys(sizes, shape), measured)
        first = dict(measured)
        for number in range(search.MAX_NEIGHBOURS):
            chosen = search.next_round(first, sizes, number, self.target.ranks)
            if chosen:
                self._try(name, f"beside-{number + 1}", self._lines(name, chosen), chosen, measured)
        candidates = {size: best for size in sizes if (best := search.best(measured, size))}
        fast: Times = {}
        launched = FinalComparison({}, [])
        if candidates:
            lines = self._lines(name, candidates)
            fast = self._times(name, "chosen", lines, checked=True)
            launched = FinalComparison(
                self._times(name, "chosen-launched", lines, launched=True),
                [self._times(name, "nccl-launched", None, launched=True)],
            )
        in_graphs = FinalComparison(fast, [nccl, self._times(name, "nccl-2", None)])
        return [search.decide(size, candidates.get(size), in_graphs, launched) for size in sizes]

    def commands(self, name: str) -> list[str]:
        """What would be run for a collective, as a shell would take it; the rest depends on what that gives."""
        ways: list[tuple[str, Way]] = [("nccl-1", None)]
        ways += [(shape.text, shape) for shape in search.first_shapes(name, in_windows=self.target.in_windows)]
        measurement = self._measurement(name)
        return [measurement.command(self._side(name, block, way), f"{name}-{block}", *UNCHECKED) for block, way in ways]

    def header(self) -> records.HeaderRecord:
        """What the first block says of machine and library."""
        first = next(iter(sorted(self.folder.glob("*-nccl-1.jsonl"))))
        return records.read(first).header

    def _nccl_first(self, name: str) -> Times:
        try:
            return self._times(name, "nccl-1", None)
        except BlockEndedError as error:
            if not self.target.in_windows or error.exit_code != ExitCode.ENVIRONMENT:
                raise
            why = "NCCL could not be measured with -R 2, which takes NCCL 2.27 and GPUs that reach each other's memory"
            raise self._no_windows(f"{why}: {error.what}") from error

    def _no_windows(self, why: str) -> NoWindowsError:
        what = f"{self.target.ranks} ranks, in windows: left out, since {why}"
        return NoWindowsError(what, remedy="leave windows out with --no-windows")

    def _lines(self, name: str, chosen: Mapping[int, MethodConfig | None]) -> list[TableRange]:
        return search.ranges(name, self.target.ranks, chosen, {}, in_windows=self.target.in_windows)

    def _try(
        self, name: str, block: str, way: Way, chosen: dict[int, MethodConfig], measured: dict[MethodConfig, Times]
    ) -> None:
        """Measures shapes by size and adds their times; what fails is left out, and said."""
        try:
            times = self._times(name, block, way)
        except BlockEndedError as error:
            if error.was_interrupted or error.exit_code == ExitCode.OUTPUT_CLOSED:
                raise
            where = " in windows" if self.target.in_windows else ""
            self.left_out.append(f"{name}{where} {block} was left out: {error.what}")
            return
        except NotAcceleratedError as error:
            if not (isinstance(way, MethodConfig) and way.method == DIRECT):
                raise
            # Lines of windows hold where direct can be done, and nowhere else.
            raise self._no_windows(
                f"the fast path did nothing in them; {self.folder / name}-{block}.log says why"
            ) from error
        for size, shape in chosen.items():
            if size in times:
                measured[shape] = {**measured.get(shape, {}), size: times[size]}

    def _times(self, name: str, block: str, way: Way, *, checked: bool = False, launched: bool = False) -> Times:
        """The times of one block; from its record where a start before this one has measured the same.

        Args:
            name: The collective.
            block: Its name among the blocks of the collective.
            way: What is measured.
            checked: Whether wrong data are an error.
            launched: Whether operations are launched one by one; else they are in graphs. Times are the device's.
        """
        label = f"{name}-{block}"
        measurement = self._measurement(name, launched=launched)
        wanted = table_text(way) if isinstance(way, list) else None
        if self._is_kept(label, wanted):
            self.blocks_kept += 1
            found = block_of(measurement.record(label))
            return self._by_size(name, label, found, checked=checked)
        self.say(f"{self.target.of(name)}: {block.replace('-', ' ')}")
        for suffix in ("jsonl", "log"):
            (self.folder / f"{label}.{suffix}").unlink(missing_ok=True)
        if wanted is not None:
            replace_file(self.folder / f"{label}.table", wanted.encode())
        side = self._side(name, block, way)
        found = measurement.block(side, label, *(CHECKED if checked else UNCHECKED))
        if way:
            methods = {way.method} if isinstance(way, MethodConfig) else {each.method for each in way}
            self._require_fast_path(label, methods - {NCCL})
        return self._by_size(name, label, found, checked=checked)

    def _is_kept(self, label: str, wanted: str | None) -> bool:
        record, table = self.folder / f"{label}.jsonl", self.folder / f"{label}.table"
        if wanted is not None and not (table.is_file() and table.read_bytes() == wanted.encode()):
            return False
        try:
            end = records.read(record).end
        except records.RecordsError:
            return False
        return end is not None and end.exit_code in (ExitCode.GOOD, ExitCode.WRONG_DATA)

    def _by_size(self, name: str, label: str, block: Block, *, checked: bool) -> Times:
        """Sizes as they were asked for: collectives with a share for each rank round them down."""
        times: dict[int, dict[Placement, float]] = {}
        for point, figure in block.items():
            if checked and figure.wrong_elements:
                where = f"{size_text(point.size_bytes)} {PLACEMENT_WORDS[point.placement]}"
                raise WrongDataError(
                    f"WRONG DATA: {name} with the fast path, first at {where} ({self.folder / label}.jsonl)",
                    remedy="set BUSBW_FASTPATH=off and report it with that record and the .table beside it",
                    exit_code=ExitCode.WRONG_DATA,
                )
            size = min((size for size in self.target.sizes if size >= point.size_bytes), default=point.size_bytes)
            time_us = figure.device_time_us or median_us(figure)
            if time_us > 0:
                times.setdefault(size, {})[point.placement] = time_us
        return times

    def _require_fast_path(self, label: str, methods: set[str]) -> None:
        """Makes sure that what was timed is what was asked for, and not NCCL under another name.

        Raises:
            HandedOverError: The library says nothing of the methods.
        """
        log = self.folder / f"{label}.log"
        said = log.read_text(errors="replace") if log.exists() else ""
        if not any(re.search(rf": {method} blocks=", said) for method in methods):
            record = self.folder / f"{label}.jsonl"
            record.unlink(missing_ok=True)  # or a second start would take it for a measurement
            raise NotAcceleratedError(
                f"the fast path handed everything over to NCCL in {label}, so there is nothing to tune",
                remedy=f"see {log}, and docs/fastpath.md for what it needs: GPUs of one host with NVLink between all",
            )

    def _side(self, name: str, block: str, way: Way) -> SideSpec:
        """Plain NCCL, or the fast path with one shape or with the block's own table."""
        if way is None:
            return SideSpec("NCCL", (("BUSBW_FASTPATH", "off"),))
        own = (self.folder / f"{name}-{block}").absolute()
        variables = {
            "BUSBW_FASTPATH": "on",
            f"BUSBW_FASTPATH_{name.upper()}": "on",
            "BUSBW_FASTPATH_LOG": f"{own}.log",
            # What is set to nothing is not set.
            METHOD_VARIABLE: f"{way.method},{way.blocks},{way.threads}" if isinstance(way, MethodConfig) else "",
            TABLE_VARIABLE: "" if isinstance(way, MethodConfig) else f"{own}.table",
        }
        return SideSpec(block, tuple(variables.items()), ("--library", str(self.target.library)))

    def _measurement(self, name: str, *, launched: bool = False) -> Measurement:
        dtype = ("-d", self.target.dtype) if name in REDUCING else ()
        sizes = ",".join(map(str, self.target.sizes))
        windows = IN_WINDOWS if self.target.in_windows else ()
        graphs = () if launched else GRAPH_FLAGS
        flags = ("-t", str(self.target.ranks), *dtype, *windows, "--sizes", sizes, *FLAGS, *graphs)
        return Measurement(engine.program(f"{name}_perf"), flags, self.folder)
