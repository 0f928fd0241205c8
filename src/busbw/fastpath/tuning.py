"""Runs the measurements of `search` with the engine's programs, for `busbw fastpath tune`.

A block is one start of the engine, which measures every size of one collective. The record of a block stays in the
folder, so a tuning can be resumed. The blocks of a collective belong to three stages, which `search` describes.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from busbw import engine, records
from busbw.ab import BlockEndedError, Measurement, SideSpec
from busbw.ab.blocks import UNCHECKED, Block, block_of, median_us
from busbw.collectives import collectives
from busbw.errors import BusbwError, ExitCode
from busbw.fastpath import search
from busbw.fastpath.search import Decision, MethodConfig, Times
from busbw.fastpath.table import DIRECT, METHOD_VARIABLE, NCCL, TABLE_VARIABLE, TableRange, table_text
from busbw.logs.log import PLACEMENT_WORDS, Placement
from busbw.support.files import replace_file
from busbw.units import size_text

FLAGS = ("-n", "100", "-w", "5", "-T", "60")
"""100 iterations, 5 warm-up iterations, and a limit of 60 s without progress."""
GRAPH_FLAGS = ("-G", "2")
"""Two launches of a graph of `-n` operations. A launch starts when all ranks have launched their graphs, so the launch
adds little to the device time."""
WINDOW_FLAGS = ("-R", "2")
"""Buffers in symmetric windows."""
CHECKED = ("-c", "1")
"""Flags with data checks."""

BlockSetting: TypeAlias = MethodConfig | list[TableRange] | None
"""Setting of a block: one config at every size, a table, or NCCL alone (None)."""


class NotAcceleratedError(BusbwError):
    """The fast path delegated every call to NCCL in a block that should measure it."""


class NoWindowsError(BusbwError):
    """NCCL creates no symmetric windows on this machine, or the fast path cannot access them."""


@dataclass(frozen=True)
class TuningTarget:
    """Target of a tuning: library, number of ranks, type and sizes."""

    library: Path
    ranks: int
    dtype: str
    """Type for the collectives that reduce. The others move bytes."""
    sizes: tuple[int, ...]
    """In bytes, ascending."""
    in_windows: bool = False
    """True if all blocks, also the blocks with NCCL alone, use buffers in symmetric windows."""

    @property
    def folder_name(self) -> str:
        """Name of the folder for its records."""
        return f"{self.ranks}-ranks" + ("-windows" if self.in_windows else "")

    def title(self, collective: str) -> str:
        """Text for messages about one collective of this target."""
        return f"{collective}, {self.ranks} ranks" + (", in windows" if self.in_windows else "")


def first_header(folder: Path) -> records.HeaderRecord:
    """Returns the header of a record in the folder of a target. It describes the machine and the library."""
    first_record = min(folder.glob("*-nccl-1.jsonl"))
    return records.read(first_record).header


@dataclass
class TableTuner:
    """Tunes one target, one collective at a time."""

    target: TuningTarget
    folder: Path
    on_progress: Callable[[str], None] = lambda _text: None
    check_interrupt: Callable[[], None] = lambda: None
    reused_blocks: int = 0
    """Number of blocks that were not measured again, because an earlier start had recorded them."""
    skipped: list[str] = field(default_factory=list)
    """One sentence for each block that could not be measured."""

    def tune_collective(self, collective: str) -> list[Decision]:
        """Tunes every size of a collective in three stages, and returns one decision per size.

        Raises:
            BlockEndedError: The tuning was interrupted, or NCCL itself could not be measured.
            NoWindowsError: No windows are available for the tuning.
            NotAcceleratedError: The fast path delegates every call to NCCL on this machine.
            BusbwError: The fast path computed wrong data.
        """
        # First, because nothing can be tuned if NCCL cannot run. Stage 3 measures NCCL again.
        first_nccl = self._measure_first_nccl(collective)
        measured: dict[MethodConfig, Times] = {}
        for config in search.first_configs(collective, in_windows=self.target.in_windows):  # stage 1
            config_by_size = dict.fromkeys(self.target.sizes, config)
            self._measure_configs(collective, config.text, config, config_by_size, measured)
        self._measure_neighbors(collective, measured)
        return self._measure_best(collective, measured, first_nccl)

    def _measure_neighbors(self, collective: str, measured: dict[MethodConfig, Times]) -> None:
        """Stage 2: measures rounds with one config next to the best of stage 1 at each size."""
        measured_in_stage_1 = dict(measured)
        for round_number in range(search.MAX_NEIGHBORS):
            configs = search.next_round(measured_in_stage_1, self.target.sizes, round_number, self.target.ranks)
            if configs:
                table = self._table_ranges(collective, configs)
                self._measure_configs(collective, f"beside-{round_number + 1}", table, configs, measured)

    def _measure_best(
        self, collective: str, measured: Mapping[MethodConfig, Times], first_nccl: Times
    ) -> list[Decision]:
        """Stage 3: measures the best config of each size in one table, and decides each size."""
        sizes = self.target.sizes
        best_configs = {size: config for size in sizes if (config := search.find_best_config(measured, size))}
        in_graphs: Times = {}
        one_by_one: Times = {}
        nccl_one_by_one: Times = {}
        if best_configs:
            table = self._table_ranges(collective, best_configs)
            in_graphs = self._block_times(collective, "chosen", table, checked=True)
            one_by_one = self._block_times(collective, "chosen-launched", table, one_by_one=True)
            nccl_one_by_one = self._block_times(collective, "nccl-launched", None, one_by_one=True)
        # `pair_times` compares with the mean of both blocks of NCCL, from before stage 1 and from the end of stage 3.
        nccl_in_graphs = [first_nccl, self._block_times(collective, "nccl-2", None)]
        return [
            search.decide_size(
                size,
                best_configs.get(size),
                search.pair_times(size, in_graphs, nccl_in_graphs),
                search.pair_times(size, one_by_one, [nccl_one_by_one]),
            )
            for size in sizes
        ]

    def _measure_first_nccl(self, collective: str) -> Times:
        """Measures NCCL before stage 1. Raises NoWindowsError if NCCL cannot run with windows."""
        try:
            return self._block_times(collective, "nccl-1", None)
        except BlockEndedError as error:
            are_windows_missing = self.target.in_windows and error.exit_code == ExitCode.ENVIRONMENT
            if not are_windows_missing:
                raise
            reason = "NCCL cannot run with -R 2, which needs NCCL 2.27 and GPUs that can access each other's memory"
            raise self._no_windows_error(f"{reason}: {error.problem}") from error

    def _no_windows_error(self, reason: str) -> NoWindowsError:
        problem = f"{self.target.ranks} ranks, in windows: skipped, because {reason}"
        return NoWindowsError(problem, remedy="exclude windows with --no-windows")

    def _table_ranges(self, collective: str, configs: Mapping[int, MethodConfig | None]) -> list[TableRange]:
        return search.ranges(collective, self.target.ranks, configs, notes={}, in_windows=self.target.in_windows)

    def _measure_configs(
        self,
        collective: str,
        name: str,
        setting: BlockSetting,
        configs: dict[int, MethodConfig],
        measured: dict[MethodConfig, Times],
    ) -> None:
        """Measures one block and adds the times to `measured`. A failed block adds a sentence to `skipped` instead.

        `configs` has the config that `setting` uses at each size.
        """
        try:
            times = self._block_times(collective, name, setting)
        except BlockEndedError as error:
            if error.was_interrupted or error.exit_code == ExitCode.OUTPUT_CLOSED:
                raise
            where = " in windows" if self.target.in_windows else ""
            self.skipped.append(f"{collective}{where} {name} was skipped: {error.problem}")
            return
        except NotAcceleratedError as error:
            is_direct = isinstance(setting, MethodConfig) and setting.method == DIRECT
            if not is_direct:
                raise
            # Only `direct` uses windows. If `direct` cannot run, all measurements of this target are useless.
            raise self._no_windows_error(
                f"the fast path did not use them; see {self.folder / collective}-{name}.log for the reason"
            ) from error
        for size, config in configs.items():
            if size in times:
                measured[config] = {**measured.get(config, {}), size: times[size]}

    def _block_times(
        self, collective: str, name: str, setting: BlockSetting, *, checked: bool = False, one_by_one: bool = False
    ) -> Times:
        """Returns the times of one block, from its record if an earlier start has measured the block.

        `name` is unique in the collective. `checked`: wrong data are an error. `one_by_one`: operations are launched
        one by one, not in graphs.
        """
        label = f"{collective}-{name}"
        measurement = self._measurement(collective, one_by_one=one_by_one)
        table = table_text(setting) if isinstance(setting, list) else None
        if self._has_complete_record(label, table):
            self.reused_blocks += 1
            figures = block_of(measurement.record(label))
            return self._times_by_size(collective, label, figures, checked=checked)
        self.on_progress(f"{self.target.title(collective)}: {name.replace('-', ' ')}")
        for suffix in ("jsonl", "log"):  # an interrupted start left these files incomplete
            (self.folder / f"{label}.{suffix}").unlink(missing_ok=True)
        if table is not None:
            replace_file(self.folder / f"{label}.table", table.encode())
        side = self._make_side(collective, name, setting)
        figures = measurement.block(side, label, *(CHECKED if checked else UNCHECKED))
        if setting:
            methods = {setting.method} if isinstance(setting, MethodConfig) else {line.method for line in setting}
            self._require_fast_path(label, methods - {NCCL})
        return self._times_by_size(collective, label, figures, checked=checked)

    def _has_complete_record(self, label: str, table: str | None) -> bool:
        """True if an earlier start has measured this block to its end, with the same table if the block has one."""
        table_file = self.folder / f"{label}.table"
        if table is not None:
            has_same_table = table_file.is_file() and table_file.read_bytes() == table.encode()
            if not has_same_table:
                return False
        try:
            end = records.read(self.folder / f"{label}.jsonl").end
        except records.RecordsError:
            return False
        return end is not None and end.exit_code in (ExitCode.GOOD, ExitCode.WRONG_DATA)

    def _times_by_size(self, collective: str, label: str, figures: Block, *, checked: bool) -> Times:
        """Returns the times by requested size. Raises BusbwError if `checked` and the block found wrong data.

        A time is the device time, or the median of the samples if the record has no device time. For collectives with
        equal parts per rank, the engine rounds a requested size down. So the requested size is the next larger one.
        """
        times: dict[int, dict[Placement, float]] = {}
        for point, figure in figures.items():
            if checked and figure.wrong_elements:
                where = f"{size_text(point.size_bytes)} {PLACEMENT_WORDS[point.placement]}"
                raise BusbwError(
                    f"WRONG DATA: {collective} with the fast path, first at {where} ({self.folder / label}.jsonl)",
                    remedy="set BUSBW_FASTPATH=off and report it with that record and its .table file",
                    exit_code=ExitCode.WRONG_DATA,
                )
            not_smaller = [size for size in self.target.sizes if size >= point.size_bytes]
            size = min(not_smaller, default=point.size_bytes)
            time_us = figure.device_time_us or median_us(figure)
            if time_us > 0:
                times.setdefault(size, {})[point.placement] = time_us
        return times

    def _require_fast_path(self, label: str, methods: set[str]) -> None:
        """Ensures that the block has measured the fast path and not NCCL.

        Raises:
            NotAcceleratedError: The library's log names none of the methods.
        """
        log = self.folder / f"{label}.log"
        log_text = log.read_text(errors="replace") if log.exists() else ""
        if not any(re.search(rf": {method} blocks=", log_text) for method in methods):
            record = self.folder / f"{label}.jsonl"
            record.unlink(missing_ok=True)  # otherwise a second start would reuse it
            raise NotAcceleratedError(
                f"the fast path delegated every call to NCCL in {label}, so it cannot be tuned",
                remedy=f"see {log}; the fast path needs GPUs of one host with NVLink between all",
            )

    def _make_side(self, collective: str, name: str, setting: BlockSetting) -> SideSpec:
        """Returns the side of a block: NCCL alone, or the fast path with one config or with the block's table."""
        if setting is None:
            return SideSpec("NCCL", (("BUSBW_FASTPATH", "off"),))
        file_stem = (self.folder / f"{collective}-{name}").absolute()
        variables = {
            "BUSBW_FASTPATH": "on",
            f"BUSBW_FASTPATH_{collective.upper()}": "on",
            "BUSBW_FASTPATH_LOG": f"{file_stem}.log",
            # An empty variable counts as unset, and hides a variable of the user.
            METHOD_VARIABLE: "",
            TABLE_VARIABLE: "",
        }
        if isinstance(setting, MethodConfig):
            variables[METHOD_VARIABLE] = f"{setting.method},{setting.blocks},{setting.threads}"
        else:
            variables[TABLE_VARIABLE] = f"{file_stem}.table"
        return SideSpec(name, tuple(variables.items()), ("--library", str(self.target.library)))

    def _measurement(self, collective: str, *, one_by_one: bool = False) -> Measurement:
        dtype = ("-d", self.target.dtype) if collectives()[collective].reduces else ()
        sizes = ",".join(map(str, self.target.sizes))
        windows = WINDOW_FLAGS if self.target.in_windows else ()
        graphs = () if one_by_one else GRAPH_FLAGS
        flags = ("-t", str(self.target.ranks), *dtype, *windows, "--sizes", sizes, *FLAGS, *graphs)
        return Measurement(
            engine.program(f"{collective}_perf"), flags, self.folder, check_interrupt=self.check_interrupt
        )
