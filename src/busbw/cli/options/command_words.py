"""Splits the values of options that are commands, such as `--ssh` and `--mpirun`, into words."""

import shlex

from busbw.errors import UsageError


def split_command(option: str, text: str) -> tuple[str, ...]:
    """Returns the words of a command that is the value of an option, such as `--ssh 'ssh -p 2222'`.

    Raises:
        UsageError: The command is empty, or its quotes do not match.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f'{option} "{text}": {error}', remedy="quote it as in a shell") from error
    if not words:
        raise UsageError(f"{option} is empty", remedy="give a command, or remove the option")
    return words
