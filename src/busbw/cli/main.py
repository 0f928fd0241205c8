"""The command line: dispatches to the commands, and turns errors into exit codes."""

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from errno import ENAMETOOLONG
from pathlib import Path

import click

import busbw
from busbw import engine
from busbw.cli.lazy import LazyGroup
from busbw.errors import EXIT_CODES_TEXT, BusbwError, ExitCode, TerminatedError, UsageError, interrupt_exit_code
from busbw.support.hangup import discard_hung_up_output
from busbw.units import plain, shorten

COMMANDS = {
    "run": "Measures one collective on this machine; shows table, curve and verdict.",
    "launch": "Measures one collective on many machines through their launcher.",
    "record": "Runs a program and records the collectives that it calls.",
    "import": "Reads logs of this and other programs; shows tables and refused lines.",
    "show": "Shows a run, a log or the trace of a job: table, curves, late ranks.",
    "runs": "Lists the runs in the store, filtered by collective, host, time and more.",
    "history": "Shows a measurement over time, and when it changed.",
    "export": "Writes runs as CSV, JSON, Markdown, JUnit, Prometheus or Parquet.",
    "check": "Judges a run or a log: GOOD, SLOW, BROKEN or UNSURE, with the evidence.",
    "report": "Writes one HTML file: verdict, curves, comparison, scatter, rows.",
    "expect": "Predicts busbw and time of a collective on a system, and its limits.",
    "refs": "Lists the reference figures, or shows one.",
    "compare": "Compares two logs, or two variants in one log: changes and confidence.",
    "ab": "Measures two variants of a collective, interleaved, and compares them.",
    "replay": "Executes the collectives of a recorded step, and compares their times.",
    "find": "Locates the slow GPU, NIC, node, rail, switch or uplink of a cluster.",
    "doctor": "Finds causes of slow communication on a node, in a log, or between nodes.",
    "topo": "Shows GPUs, NICs and NUMA nodes of this machine and their links.",
    "tune": "Searches settings that make a collective faster, and confirms them.",
    "fastpath": "Library for small collectives: its path, its table, its tuning.",
}
"""Every command and its line in the help. The module `busbw.cli.<name>` implements it, `import_` the command import."""


def _print_versions(context: click.Context, _parameter: click.Parameter, is_set: bool) -> None:
    if not is_set or context.resilient_parsing:
        return
    # The engine prints its version first; equal lines are printed once.
    unique_lines = dict.fromkeys([f"busbw {busbw.__version__}", *engine.versions().splitlines()])
    click.echo("\n".join(unique_lines))
    context.exit()


@click.group(
    cls=LazyGroup,
    package="busbw.cli",
    sections={"Commands": COMMANDS},
    epilog=EXIT_CODES_TEXT,
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
    """Runs one command line and returns its exit code. An error is one sentence on stderr, without a traceback."""
    # Python sets a closed standard stream to None. A read-only file replaces stdout, so that writing to it fails.
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # the locale may lack a character
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _refuse_invalid_utf8(words)
        result = cli.main(args=words, prog_name="busbw", standalone_mode=False)
        sys.stdout.flush()
        return int(result or ExitCode.GOOD)
    except BusbwError as error:
        return _print_error(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return ExitCode.USAGE
    except click.ClickException as error:
        return _print_error(error.format_message(), ExitCode.USAGE)
    except (KeyboardInterrupt, click.Abort) as raised:
        # click converts an interrupt to an Abort.
        interrupt = raised.__cause__ if isinstance(raised, click.Abort) else raised
        return interrupt_exit_code(interrupt) if isinstance(interrupt, KeyboardInterrupt) else ExitCode.INTERRUPTED
    except (BrokenPipeError, SystemExit) as raised:
        # click converts BrokenPipeError to SystemExit(1). Exit code 1 would mean wrong data here.
        is_end_of_shell_completion = isinstance(raised, SystemExit) and raised.code != 1
        if is_end_of_shell_completion:
            raise
        _discard_output()
        return ExitCode.OUTPUT_CLOSED
    except OSError as error:
        if discard_hung_up_output():
            return interrupt_exit_code(TerminatedError())
        # Print before discarding: stderr may still be writable.
        code = _print_error(*_message_and_code(error))
        _discard_output()
        return code


def _refuse_invalid_utf8(words: Sequence[str]) -> None:
    """Refuses words that are not UTF-8, because any word may appear in records, tables and messages."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            printable = word.encode(errors="replace").decode()
            raise UsageError(f'"{printable}" is not UTF-8 text', remedy="write or rename it in UTF-8") from error


def _message_and_code(error: OSError) -> tuple[str, ExitCode]:
    """Returns message and exit code for an OSError that no command handles."""
    if error.errno == ENAMETOOLONG:
        name = str(error.filename or "a path")
        return f"{name} is too long for a file name; give another path", ExitCode.USAGE
    problem = f"cannot use {error.filename}" if error.filename else "cannot continue"
    return f"{problem}: {error.strerror}; check the destination of the output", ExitCode.ENVIRONMENT


def _discard_output() -> None:
    """Redirects stdout and stderr to /dev/null, because Python flushes them again at exit."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _print_error(sentence: str, code: int) -> int:
    """Prints the error, and returns the exit code."""
    # A message may contain file names and log text, which must not control or flood the terminal.
    with suppress(OSError):
        click.echo(f"busbw: {shorten(plain(sentence))}", err=True)
    return code
