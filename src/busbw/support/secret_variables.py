"""Decides which environment variables may hold secrets, so that callers neither show nor store their values."""

import re
from collections.abc import Iterable

REDACTED = "(redacted)"
"""Text in the place of a secret value."""

SECRET_WORDS = (
    "TOKEN",
    "SECRET",
    "PASS",
    "PWD",
    "_KEY",
    "CREDENTIAL",
    "APIKEY",
    "AUTH",
    "BEARER",
    "COOKIE",
)
"""Parts of variable names that mark secrets; the same as the engine's (common/os/provenance.cpp)."""
SECRET_ENDINGS = ("_PAT",)
"""Endings of variable names that mark secrets. Elsewhere in a name they are common: PATH. The same as the engine's."""
_FOLDER_NAMES = frozenset(("PWD", "OLDPWD"))
"""Variables of the shell that name the working folder."""

# A password may contain slashes. A number and a slash are the port and the path of a URL without a password.
_SECRET_URL = re.compile(
    r"://(?:[^/\s@:]*:(?!\d+/)[^\s@]+|(?:gh[opsru]_|github_pat_|glpat-|hf_)[^/\s@:]*)@", re.IGNORECASE
)
"""URL with a password, or with a token of GitHub, GitLab or Hugging Face as user: ://user:password@, ://ghp_abc@.

The engine knows the same tokens. The scheme is left out, because its search takes quadratic time in a long value."""


def may_be_secret(name: str, value: str = "") -> bool:
    """True if the name marks a secret, in upper or lower case, or if the value is redacted or a URL with a secret."""
    upper = f"_{name.upper()}"  # the underscore in front lets a variable KEY match the word _KEY
    is_secret_name = upper.endswith(SECRET_ENDINGS) or any(word in upper for word in SECRET_WORDS)
    if is_secret_name and name not in _FOLDER_NAMES:
        return True
    return value == REDACTED or bool(_SECRET_URL.search(value))


def redacted_variables(variables: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Returns the variables with `REDACTED` in the place of the values that may be secret."""
    return tuple((name, REDACTED if may_be_secret(name, value) else value) for name, value in variables)
