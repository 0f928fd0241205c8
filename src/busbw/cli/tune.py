"""`busbw tune`: searches and confirms settings that make a collective faster.

`busbw.tune` screens candidate settings quickly and confirms the best by A/B sessions. This module prints and writes the
results.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
import msgspec

from busbw import records
from busbw.ab import Measurement, SessionRules, parse_side
from busbw.ab.blocks import CHECK_BLOCK_FLAGS, CHECK_BLOCK_PREFIX
from busbw.cli.comparison_options import resolution_option
from busbw.cli.interrupts import checked_interrupts
from busbw.cli.launched_process import ONE_NODE_REMEDY, refuse_launched_process
from busbw.cli.options.block_options import folder_option, new_folder, quadruples_option
from busbw.cli.options.deprecated import renamed_option
from busbw.cli.options.engine_flags import rank_flags, used_flags
from busbw.cli.options.engine_words import REPLAY, EngineCommand, words_argument
from busbw.cli.options.json_option import json_option
from busbw.cli.options.replay_options import PROGRAM_FILE, StepSelection, parse_objective, step_options
from busbw.compare import SizeResult
from busbw.errors import UsageError
from busbw.logs.log import PLACEMENT_WORDS
from busbw.support.files import write_file
from busbw.support.json_output import json_object
from busbw.terminal import Cell, Column, console, live_line, table_lines, terminal_width
from busbw.tune.confirm import TuningResult, confirm
from busbw.tune.knobs import default_candidates, parse_knobs
from busbw.tune.outputs import TUNER_FORMAT, environment_file, tuner_file
from busbw.tune.screen import ScreenedCandidate, screen
from busbw.units import size_text

SIZES = ("8K", "1M", "64M")
"""One size per band: latency, middle, plateau."""
ENVIRONMENT_FILE = "tuned.env"
TUNER_FILE = "nccl_tuner.conf"
_CHECK_BLOCK = f"{CHECK_BLOCK_PREFIX}000"
"""Name of the block that checks the current settings."""


@click.command(
    cls=EngineCommand,
    context_settings={"ignore_unknown_options": True},
    options_metavar="[OPTIONS]",
    epilog="All other options are engine flags. Default: one rank per GPU, or 2 to 4 ranks on the host, and "
    "--sizes 8K,1M,64M.",
)
@click.option(
    "--knob",
    "knobs",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="Try these values of a variable instead of the built-in list; repeatable.",
)
@click.option("--common", default="", metavar="SIDE", help="Settings that all runs share, as a side of `busbw ab`.")
@renamed_option("--with", "--common")
@click.option(
    "--max-confirm", type=click.IntRange(min=1), default=4, show_default=True, help="Settings to confirm at most."
)
@renamed_option("--confirm", "--max-confirm")
@resolution_option("Smallest change that matters in a confirmation.")
@quadruples_option("Maximum number of groups of four blocks per confirmation.")
@folder_option
@json_option
@step_options
@words_argument
def tune(
    selection: StepSelection,
    knobs: tuple[str, ...],
    common: str,
    max_confirm: int,
    resolution: float,
    max_quadruples: int,
    folder: Path | None,
    as_json: bool,
    words: tuple[str, ...],
) -> int:
    """Varies settings one at a time at three sizes, confirms the best by `busbw ab`, and writes them to files.

    `busbw tune replay TRACE` searches settings for a step of a recorded job.
    """
    objective = parse_objective(words, selection)
    common_side = parse_side("--common", common)
    candidates = parse_knobs(knobs) if knobs else []
    if used_flags(objective.flags) & {"-b", "-e", "-f", "-i"}:
        raise UsageError("tune takes a list of sizes, not a sweep", remedy="set --sizes 8K,1M,64M")
    refuse_launched_process("tune", ONE_NODE_REMEDY)
    with (
        checked_interrupts() as check_interrupt,
        new_folder(folder, f"{objective.name}-tune") as records_folder,
        live_line() as show_progress,
    ):
        all_flags = objective.prepare_arguments(records_folder / PROGRAM_FILE, _default_flags)
        measurement = Measurement(objective.engine_program, all_flags, records_folder, check_interrupt=check_interrupt)
        show_progress("checking the current settings")
        current_block = measurement.block(common_side, _CHECK_BLOCK, *CHECK_BLOCK_FLAGS)
        if any(figure.wrong_elements for figure in current_block.values()):
            subject = REPLAY if objective.replay else f"run {objective.name}"
            raise UsageError("the current settings give WRONG DATA", remedy=f"run `busbw {subject}` first")
        header = records.read(measurement.record(_CHECK_BLOCK)).header
        hosts = len({rank.host for rank in header.ranks})
        collective = None if objective.replay else objective.name
        candidates = candidates or default_candidates(header.backend, collective, hosts)
        if objective.replay:  # all sizes of a step share one setting
            candidates = list(dict.fromkeys(replace(candidate, goes_to="environment") for candidate in candidates))
        screened = screen(measurement, common_side, candidates, on_progress=show_progress)
        rules = SessionRules(resolution=resolution, max_quadruples=max_quadruples)
        tuning = confirm(
            measurement, common_side, screened, max_candidates=max_confirm, rules=rules, on_progress=show_progress
        )

    sizes_bytes = sorted({point.size_bytes for point in current_block})
    files = _write_settings(records_folder, objective.name, tuning, sizes_bytes, hosts=hosts, ranks=len(header.ranks))
    if as_json:
        click.echo(json_object(_result_fields(screened, tuning, files)))
    else:
        _print_screening(screened, sizes_bytes)
        for confirmed in tuning.confirmed:
            changes = _changes_text(confirmed.comparison.changed if confirmed.comparison else ())
            click.echo(f"{confirmed.candidate.text}: {confirmed.decision}{changes}.")
        for sentence in files.sentences:
            click.echo(sentence)
    click.echo(f"Records: {records_folder}", err=True)
    return tuning.exit_code


def _default_flags(flag_names: set[str]) -> tuple[str, ...]:
    """Returns the engine flags for ranks and sizes that the user's flags do not set."""
    sizes_flag = () if "--sizes" in flag_names else ("--sizes", ",".join(SIZES))
    return (*rank_flags(flag_names), *sizes_flag)


def _print_screening(screened: Sequence[ScreenedCandidate], sizes_bytes: Sequence[int]) -> None:
    """Prints a table of the gains of all candidates, the best first, or why a candidate was excluded."""
    best_first = sorted(screened, key=lambda entry: -entry.best_gain)
    columns = [Column("setting", [entry.candidate.text for entry in best_first], is_number=False)]
    for size in sizes_bytes:
        columns.append(Column(size_text(size), [_percent_text(entry.gains.get(size)) for entry in best_first]))
    columns.append(Column("", [Cell(entry.excluded, "yellow") for entry in best_first], is_number=False))
    out = console()
    out.print("Screening: gain over the current settings, by size")
    for line in table_lines(columns, terminal_width()):
        out.print(line)
    out.print()


def _percent_text(gain: float | None) -> str:
    return "" if gain is None else f"{gain * 100:+.1f} %"


def _changes_text(changed: Sequence[SizeResult]) -> str:
    """Returns the confirmed changes: ' - FASTER at 1 MiB in place (1.043x)'."""
    texts = [
        f"{result.verdict.value} at {size_text(result.point.size_bytes)} {PLACEMENT_WORDS[result.point.placement]} "
        f"({result.speedup or 0:.3f}x)"
        for result in changed
    ]
    return f" - {'; '.join(texts)}" if texts else ""


@dataclass
class _SettingsFiles:
    """Files with the confirmed settings (None: not written), and sentences about them."""

    environment: Path | None = None
    tuner: Path | None = None
    sentences: list[str] = field(default_factory=list)


def _result_fields(
    screened: Sequence[ScreenedCandidate], tuning: TuningResult, files: _SettingsFiles
) -> dict[str, object]:
    """Returns the result as it is printed with `--json`. Gains are relative; 0.05 is 5 % faster."""
    return {
        "screened": [
            {
                "setting": entry.candidate.text,
                "gains": [{"size_bytes": size, "gain": gain} for size, gain in sorted(entry.gains.items())],
                "excluded": entry.excluded or None,
            }
            for entry in screened
        ],
        "confirmed": [
            {
                "setting": confirmed.candidate.text,
                "decision": confirmed.decision,
                "comparison": msgspec.to_builtins(confirmed.comparison),
            }
            for confirmed in tuning.confirmed
        ],
        "adopted": dict(tuning.adopted),
        "winners": tuning.winners,
        "environment_file": str(files.environment) if files.environment else None,
        "tuner_file": str(files.tuner) if files.tuner else None,
    }


def _write_settings(
    records_folder: Path, name: str, tuning: TuningResult, sizes_bytes: Sequence[int], *, hosts: int, ranks: int
) -> _SettingsFiles:
    """Writes the files with the confirmed settings, if there are any. `name` is the collective, or "replay"."""
    files = _SettingsFiles()
    if tuning.adopted:
        files.environment = records_folder / ENVIRONMENT_FILE
        adopted = [confirmed for confirmed in tuning.confirmed if confirmed.decision == "adopted"]
        evidence = [
            f"{confirmed.candidate.text}{_changes_text(confirmed.comparison.changed)}"
            for confirmed in adopted
            if confirmed.comparison
        ]
        comments = [f"busbw tune {name}, {ranks} ranks", *evidence]
        write_file(files.environment, environment_file(tuning.adopted, comments).encode())
        files.sentences.append(f"Environment: {files.environment}")
    if tuning.winners:
        text, omitted = tuner_file(name, tuning.winners, sizes_bytes, hosts=hosts, ranks=ranks)
        files.sentences += omitted
        has_winner_in_file = len(omitted) < len(tuning.winners)
        if has_winner_in_file:
            files.tuner = records_folder / TUNER_FILE
            write_file(files.tuner, text.encode())
            files.sentences.append(f"For {TUNER_FORMAT}: {files.tuner} (NCCL_TUNER_CONFIG_FILE)")
    if not tuning.adopted and not tuning.winners:
        files.sentences.append("No setting was confirmed to be faster: keep the current settings.")
    return files
