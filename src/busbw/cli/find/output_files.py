"""Files that a search writes: `--write-hostfile`, `--junit` and `--prometheus`."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from busbw.cli.find.junit import junit_document
from busbw.cli.find.prometheus import prometheus_text
from busbw.cli.find.summary import SearchSummary, suspected_nodes
from busbw.cli.options.output_file import require_writable, write_whole
from busbw.cli.options.param_types import NonEmptyPath
from busbw.find.cluster import Cluster

_HELP = {
    "--write-hostfile": "Write the nodes without a finding to FILE, one per line.",
    "--junit": "Write JUnit XML to FILE, a case per kind of part.",
    "--prometheus": "Write metrics to FILE, for Prometheus.",
}
_Files = Mapping[str, Path | None]
"""File of each option, None if it is not set."""


def output_file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options. Their values are the parameters write_hostfile, junit and prometheus."""
    for flag, text in reversed(_HELP.items()):
        command = click.option(flag, type=NonEmptyPath(dir_okay=False), metavar="FILE", help=text)(command)
    return command


def require_writable_files(files: _Files) -> None:
    """Checks before the search that all files can be written.

    Raises:
        BusbwError: One cannot.
    """
    for flag, path in files.items():
        if path is not None:
            require_writable(path, flag=flag)


def write_files(files: _Files, summary: SearchSummary, cluster: Cluster) -> None:
    """Writes the files of the options that are set."""
    healthy = [node.name for node in cluster.nodes if node.name not in suspected_nodes(summary)]
    contents = {
        "--write-hostfile": "".join(f"{name}\n" for name in healthy).encode(),
        "--junit": junit_document(summary),
        "--prometheus": prometheus_text(summary, time.time()).encode(errors="replace"),
    }
    for flag, path in files.items():
        if path is not None:
            write_whole(path, contents[flag], flag=flag)
