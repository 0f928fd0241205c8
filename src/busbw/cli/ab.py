"""`busbw ab`: two ways of running a collective, measured interleaved."""

from pathlib import Path

import click
import msgspec

from busbw import engine
from busbw.ab import Measurement, Session, SessionRules, SessionState, SideSpec, parse_side
from busbw.ab.plan import FIRST_LOOK
from busbw.cli.comparison_options import exit_code, json_option, not_slower_option, resolution_option, show
from busbw.cli.interrupts import InterruptGuard, termination_as_interrupt
from busbw.cli.options.block_options import folder_option, new_folder, quadruples_option
from busbw.cli.options.engine_flags import named_collective, rank_flags, used_flags
from busbw.cli.options.param_types import Seconds
from busbw.compare import Comparison
from busbw.terminal import live_line

_SWEEP = ("-b", "1K", "-e", "16M", "-f", "4")


@click.command(
    context_settings={"ignore_unknown_options": True},
    options_metavar="[OPTIONS]",
    epilog="A side is written in quotes: KEY=VALUE sets a variable, --preload PATH a library before all others (a bare "
    "name may be one that came with the engine), --image IMAGE takes the programs from a container image, and anything "
    "else is an option of the engine (--library PATH, -z 1); a side left out changes nothing. Write --b='-z 1' where "
    "it begins with a dash. Every other option goes to the engine on both sides; without them: every GPU, or 4 ranks "
    "on the host, and 1 KiB to 16 MiB by a factor of 4 (-b 1K -e 16M -f 4); with a size of yours, by a factor of 2.",
)
@click.option("--a", "text_a", default="", metavar="SIDE", help="What side A changes.  [default: nothing]")
@click.option("--b", "text_b", default="", metavar="SIDE", help="What side B changes.  [default: nothing]")
@resolution_option()
@quadruples_option("Stop after so many groups of four blocks, decided or not.")
@click.option("--noise/--no-noise", default=True, show_default=True, help="Measure A against A first: half the time.")
@click.option("--budget", "budget_s", type=Seconds(), metavar="SECONDS", help="Stop then.")
@folder_option
@json_option
@not_slower_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COLLECTIVE [ENGINE OPTIONS]...")
def ab(
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
    """Measures COLLECTIVE in two ways, interleaved on the same ranks, and says at which sizes they differ."""
    collective = named_collective(words)
    sides = (parse_side("--a", text_a), parse_side("--b", text_b))
    flags = words[1:]
    given = used_flags(flags)
    rules = SessionRules(
        resolution=resolution,
        max_quadruples=max_quadruples,
        max_time_s=budget_s,
        measures_noise=noise,
        checks_every_block="-c" in given,
    )
    program = engine.program(f"{collective}_perf")
    with termination_as_interrupt() as ending:
        with new_folder(folder, f"{collective}-ab") as where:
            measurement = Measurement(program, (*defaults(given), *flags), where)
            comparison, state = measure(measurement, sides, rules, ending)
        (where / "comparison.json").write_bytes(msgspec.json.format(msgspec.json.encode(comparison)) + b"\n")
        if as_json:
            click.echo(msgspec.json.encode(comparison))
        else:
            show(comparison)
        click.echo(f"Records: {where}", err=True)
    return state.exit_code or exit_code(comparison, not_slower=not_slower)


def measure(
    measurement: Measurement, sides: tuple[SideSpec, SideSpec], rules: SessionRules, ending: InterruptGuard
) -> tuple[Comparison, SessionState]:
    """Runs an A/B measurement with its progress on stderr."""
    with live_line() as draw:
        session = Session(
            measurement,
            sides,
            rules,
            on_progress=lambda state: draw(_line(state, session)),
            on_end=ending.ignore_repeats,
        )
        return session.run(), session.state


def _line(state: SessionState, session: Session) -> str:
    left_s = session.seconds_left
    time_left = "" if left_s is None else f", at most {left_s:.0f} s left"
    done = len(state.quadruples) or (len(state.calibration) if len(state.calibration) < FIRST_LOOK else 0)
    return f"{state.phase}: quadruple {done + 1}{time_left}"


def defaults(given: set[str]) -> tuple[str, ...]:
    """The engine's flags that the user left open."""
    sized = given & {"-b", "-e", "-f", "-i", "--sizes"}
    if not sized:
        return (*rank_flags(given), *_SWEEP)
    return (*rank_flags(given), *(() if given & {"-f", "-i", "--sizes"} else ("-f", "2")))
