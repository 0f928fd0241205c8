"""Options that write the result of a search to a file: `--write-hostfile`, `--junit` and `--prometheus`."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from busbw.cli.find.junit import junit_document
from busbw.cli.find.prometheus import prometheus_text
from busbw.cli.find.summary import FindSummary
from busbw.cli.options.output_file import require_writable, write_whole
from busbw.cli.options.param_types import NonEmptyPath

_EXPORTS: dict[str, tuple[str, Callable[[FindSummary], bytes]]] = {
    "--write-hostfile": (
        "Write the nodes without a finding to FILE, one per line.",
        lambda summary: "".join(f"{name}\n" for name in summary.unsuspected_nodes).encode(),
    ),
    "--junit": ("Write JUnit XML to FILE, a case per kind of part.", junit_document),
    "--prometheus": ("Write metrics to FILE, for Prometheus.", lambda summary: prometheus_text(summary, time.time())),
}
"""Help text and content of each file."""
EXPORT_FLAGS = frozenset(_EXPORTS)


def export_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options to a command."""
    for flag, (text, _) in reversed(_EXPORTS.items()):
        path = NonEmptyPath(dir_okay=False)
        command = click.option(flag, type=path, metavar="FILE", callback=_require_writable, help=text)(command)
    return command


def _require_writable(_context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Checks before the search that a file can be written."""
    if path is not None:
        require_writable(path, flag=option.opts[0])
    return path


def write_exports(summary: FindSummary, files: Mapping[str, Path | None]) -> None:
    """Writes the file of each option that is set."""
    for flag, path in files.items():
        if path is not None:
            write_whole(path, _EXPORTS[flag][1](summary), flag=flag)
