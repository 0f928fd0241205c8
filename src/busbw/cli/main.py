"""The command line: dispatches to the commands, and is the one place that turns errors into exit codes."""

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from errno import ENAMETOOLONG
from pathlib import Path

import click

from busbw import __version__, engine
from busbw.cli.lazy import LazyGroup
from busbw.errors import BusbwError, ExitCode, UsageError, interrupt_exit_code
from busbw.units import plain

COMMANDS = {
    "run": "Measures one collective on this machine and shows table, picture and verdict.",
    "launch": "Measures one collective on many machines, through the launcher that they have.",
    "import": "Reads logs of this and other programs: what they hold, what was refused, and why.",
    "show": "Shows a run or a log: what ran on what, the table, curves, what was wrong.",
    "runs": "Lists the runs that are kept, by what was measured, where and when.",
    "history": "Shows how a measurement went over time, and where it changed.",
    "export": "Writes runs as CSV, JSON, Markdown, JUnit, Prometheus or Parquet.",
    "check": "Judges a run or a log: GOOD, SLOW, BROKEN or UNSURE, with the evidence.",
    "report": "Writes one HTML file: verdict, curves, comparison, scatter, rows.",
    "expect": "Says what a collective should reach on a system, and what limits it.",
    "refs": "Lists the reference figures, or shows one.",
    "compare": "Compares two logs, or two variants within one: what changed and how sure that is.",
    "ab": "Measures two ways of running a collective, interleaved, and says what differs.",
    "topo": "Shows GPUs, NICs and NUMA nodes of this machine, and what joins them.",
    "tune": "Looks for settings that make a collective faster, and confirms them.",
    "fastpath": "The library that speeds up small collectives: where it is, its table, tuning it.",
}
"""Every command and its line in the help; `busbw.cli.<name>` holds it."""


def _print_versions(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    # The engine says its own version first; one line is enough where the two agree.
    words = dict.fromkeys([f"busbw {__version__}", *engine.versions().splitlines()])
    click.echo("\n".join(words))
    context.exit()


@click.group(
    cls=LazyGroup,
    package="busbw.cli",
    sections={"Commands": COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Show the versions of the program, its backends and the record schema.",
)
def cli() -> None:
    """Measures, verifies and explains the collective communication of GPU machines and clusters."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code; an error is one sentence on stderr and no traceback."""
    # Python has no object for a standard stream that was closed.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where the locale lacks a character, the rest is still said
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _refuse_what_is_no_text(words)
        result = cli.main(args=words, prog_name="busbw", standalone_mode=False)
        sys.stdout.flush()
        return int(result or ExitCode.GOOD)
    except BusbwError as error:
        return _refuse(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return ExitCode.USAGE
    except click.ClickException as error:
        return _refuse(error.format_message(), ExitCode.USAGE)
    except (KeyboardInterrupt, click.Abort) as ended:
        # click makes an Abort of an interrupt.
        interrupt = ended.__cause__ if isinstance(ended, click.Abort) else ended
        return interrupt_exit_code(interrupt) if isinstance(interrupt, KeyboardInterrupt) else ExitCode.INTERRUPTED
    except (BrokenPipeError, SystemExit) as ended:
        # click makes an exit of the one, with 1, which means wrong data; with 0 it has completed a word for a shell.
        if isinstance(ended, SystemExit) and ended.code != 1:
            raise
        _write_nowhere()
        return ExitCode.OUTPUT_CLOSED
    except OSError as error:
        # The sentence first: what cannot be written may be stdout alone.
        code = _refuse(*_cause(error))
        _write_nowhere()
        return code


def _refuse_what_is_no_text(words: Sequence[str]) -> None:
    """Records, tables and sentences are UTF-8, and any word may come to stand in them.

    Raises:
        UsageError: A word holds bytes that are none.
    """
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            shown = word.encode(errors="replace").decode()
            raise UsageError(f'"{shown}" is no UTF-8 text', remedy="write or rename it in UTF-8") from error


def _cause(error: OSError) -> tuple[str, ExitCode]:
    """The sentence and the code of an error that no command expected."""
    if error.errno == ENAMETOOLONG:
        name = str(error.filename or "a path")
        return f"{name[:40]}... is longer than a file's name can be; give another path", ExitCode.USAGE
    what = f"cannot use {error.filename}" if error.filename else "cannot go on"
    return f"{what}: {error.strerror}; look at where the output goes", ExitCode.ENVIRONMENT


def _write_nowhere() -> None:
    """Python flushes its streams once more on its way out; lets that go nowhere."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _refuse(sentence: str, code: int) -> int:
    # Names of files and words of logs stand in sentences, and nothing in them may control a terminal.
    with suppress(OSError):
        click.echo(f"busbw: {plain(sentence)}", err=True)
    return code
