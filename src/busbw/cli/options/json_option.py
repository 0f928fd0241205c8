"""The option `--json` of the commands that print one object. `busbw.support.json_output` makes the object."""

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
