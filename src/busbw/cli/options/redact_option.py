"""The option `--redact` of the commands with output that people share."""

import click

redact_option = click.option(
    "--redact", "is_redacted", is_flag=True, help="Remove names of hosts and people, paths and ids, for sharing."
)
