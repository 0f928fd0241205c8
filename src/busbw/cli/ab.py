"""`busbw ab`: measures two variants (sides) of a collective in interleaved blocks, and compares them."""

from pathlib import Path

import click
import msgspec

from busbw.ab import Measurement, Session, SessionRules, SessionState, SideSpec, parse_side
from busbw.ab.plan import FIRST_LOOK
from busbw.cli.comparison_options import exit_code, not_slower_option, print_comparison, resolution_option
from busbw.cli.interrupts import checked_interrupts
from busbw.cli.launched_process import refuse_launched_process
from busbw.cli.options.block_options import folder_option, new_folder, quadruples_option
from busbw.cli.options.engine_flags import rank_flags, used_flags
from busbw.cli.options.engine_words import EngineCommand, words_argument
from busbw.cli.options.json_option import json_option
from busbw.cli.options.param_types import SECONDS
from busbw.cli.options.replay_options import PROGRAM_FILE, StepSelection, parse_objective, step_options
from busbw.compare import Comparison
from busbw.compare.text import step_sentences
from busbw.support.files import write_file
from busbw.support.json_output import json_object
from busbw.terminal import live_line

_DEFAULT_SIZE_FLAGS = ("-b", "1K", "-e", "16M", "-f", "4")
"""Flags for the default sizes. They are few, because each block measures all of them."""


@click.command(
    cls=EngineCommand,
    context_settings={"ignore_unknown_options": True},
    options_metavar="[OPTIONS]",
    epilog="Quote a side. KEY=VALUE sets a variable. --preload PATH loads a library before all others; a bare name may "
    "be a library of the engine. --image IMAGE takes the programs from a container image. All other words are engine "
    "flags (--library PATH, -z 1). A missing side changes nothing. Write --b='-z 1' if a side begins with a dash. All "
    "other options are engine flags for both sides. Default: one rank per GPU, or 2 to 4 ranks on the host, and 1 KiB "
    "to 16 MiB by a factor of 4 (-b 1K -e 16M -f 4). If you set a size, the factor is 2.",
)
@click.option("--a", "text_a", default="", metavar="SIDE", help="Settings of side A.  [default: none]")
@click.option("--b", "text_b", default="", metavar="SIDE", help="Settings of side B.  [default: none]")
@resolution_option()
@quadruples_option("Stop after this many groups of four blocks.")
@click.option(
    "--noise/--no-noise",
    default=True,
    show_default=True,
    help="Measure A against A first, which takes half of the time.",
)
@click.option("--budget", "budget_s", type=SECONDS, metavar="SECONDS", help="Stop after this time.")
@folder_option
@json_option
@not_slower_option
@step_options
@words_argument
def ab(
    selection: StepSelection,
    text_a: str,
    text_b: str,
    resolution: float,
    max_quadruples: int,
    noise: bool,
    budget_s: float | None,
    folder: Path | None,
    as_json: bool,
    not_slower: bool,
    words: tuple[str, ...],
) -> int:
    """Measures two variants of COLLECTIVE, interleaved on the same ranks, and shows the sizes at which they differ.

    `busbw ab replay TRACE` measures a step of a recorded job.
    """
    objective = parse_objective(words, selection)
    sides = (parse_side("--a", text_a), parse_side("--b", text_b))
    rules = SessionRules(
        resolution=resolution,
        max_quadruples=max_quadruples,
        max_time_s=budget_s,
        measures_noise=noise,
        checks_every_block="-c" in used_flags(objective.flags),
    )
    refuse_launched_process("ab", "measure each side with busbw launch, then use busbw compare")
    with checked_interrupts() as check_interrupt:
        with new_folder(folder, f"{objective.name}-ab") as records_folder:
            all_flags = objective.prepare_arguments(records_folder / PROGRAM_FILE, default_flags)
            measurement = Measurement(
                objective.engine_program, all_flags, records_folder, check_interrupt=check_interrupt
            )
            comparison, state = run_session(measurement, sides, rules)
        write_file(records_folder / "comparison.json", msgspec.json.format(json_object(comparison)) + b"\n")
        if as_json:
            click.echo(json_object(comparison))
        else:
            print_comparison(comparison)
            if objective.replay:
                click.echo("\n".join(step_sentences(comparison)))
        click.echo(f"Records: {records_folder}", err=True)
    return state.exit_code or exit_code(comparison, not_slower=not_slower)


def run_session(
    measurement: Measurement, sides: tuple[SideSpec, SideSpec], rules: SessionRules
) -> tuple[Comparison, SessionState]:
    """Runs an A/B session, with its progress on stderr, and returns its comparison and final state."""
    with live_line() as draw:

        def show(state: SessionState) -> None:
            draw(_progress_text(state, session.seconds_left))

        session = Session(measurement, sides, rules, on_progress=show)
        return session.run(), session.state


def _progress_text(state: SessionState, seconds_left: float | None) -> str:
    time_left = "" if seconds_left is None else f", at most {seconds_left:.0f} s left"
    # The FIRST_LOOK quadruples of A against A, if any, come first. Before the first quadruple, both counts are 0.
    noise_count, count = len(state.noise_quadruples), len(state.quadruples)
    is_measuring_noise = count == 0 and noise_count < FIRST_LOOK
    return f"{state.activity}: quadruple {(noise_count if is_measuring_noise else count) + 1}{time_left}"


def default_flags(flag_names: set[str]) -> tuple[str, ...]:
    """Returns the engine flags for ranks and sizes that the user's flags do not set."""
    sets_step = bool(flag_names & {"-f", "-i", "--sizes"})
    sets_size = sets_step or bool(flag_names & {"-b", "-e"})
    if not sets_size:
        return (*rank_flags(flag_names), *_DEFAULT_SIZE_FLAGS)
    if not sets_step:
        return (*rank_flags(flag_names), "-f", "2")
    return rank_flags(flag_names)
