"""Decides which environment variables may hold secrets. The values of these variables are shown and stored nowhere."""

import re
from collections.abc import Iterable

REDACTED = "(redacted)"
"""Text in the place of a secret value."""

SECRET_WORDS = (
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "_KEY",
    "CREDENTIAL",
    "APIKEY",
    "AUTH",
    "BEARER",
    "COOKIE",
)
"""Parts of variable names that mark secrets; the same as the engine's (common/os/provenance.cpp)."""

_URL_WITH_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@:]*:[^/\s@]+@", re.IGNORECASE)


def may_be_secret(name: str, value: str = "") -> bool:
    """True if the name contains a word for secrets, in any case, or if the value is redacted or a URL with password."""
    # The underscore in front lets a variable KEY match the word _KEY.
    is_secret_name = any(word in f"_{name.upper()}" for word in SECRET_WORDS)
    return is_secret_name or value == REDACTED or bool(_URL_WITH_PASSWORD.search(value))


def redacted_variables(variables: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Returns the variables with `REDACTED` in the place of the values that may be secret."""
    return tuple((name, REDACTED if may_be_secret(name, value) else value) for name, value in variables)
