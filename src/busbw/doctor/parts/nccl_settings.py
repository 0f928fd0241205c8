"""Settings: variables of the process that concern communication, and variables in NCCL's configuration files."""

import re
from collections.abc import Iterator

from msgspec import Struct

from busbw.doctor.facts.process import Environment, UserConfiguration
from busbw.doctor.model import Evidence, Machine

_SYSTEM_FILE = "etc/nccl.conf"
_ENVIRONMENT = "environment"


class Setting(Struct, kw_only=True, frozen=True):
    """Value of a variable, and its origin."""

    name: str
    value: str
    origin: str
    """File, or "environment"."""

    @property
    def text(self) -> str:
        """Assignment, as in a shell."""
        return f"{self.name}={self.value}"

    @property
    def evidence(self) -> Evidence:
        """Origin and value."""
        return Evidence(self.origin, self.text)

    @property
    def fix(self) -> str:
        """Command or step that removes the setting."""
        return f"unset {self.name}" if self.origin == _ENVIRONMENT else f"remove {self.name} from {self.origin}"


def read_settings(machine: Machine) -> dict[str, Setting]:
    """Returns the settings that are in effect, by name. NCCL prefers the environment, then the user's file."""
    # NCCL treats an empty variable as not set.
    settings = {
        name: Setting(name=name, value=value.strip(), origin=_ENVIRONMENT)
        for name, value in machine.fact(Environment).variables.items()
        if value.strip()
    }
    for origin, line in configuration_lines(machine):
        name, equals, value = line.partition("=")
        if equals and is_name(name):
            settings.setdefault(name, Setting(name=name, value=value.strip(), origin=origin))
    return settings


def configuration_lines(machine: Machine) -> Iterator[tuple[str, str]]:
    """Yields path and text of the lines in NCCL's configuration files, without empty lines and comments."""
    user = machine.fact(UserConfiguration)
    system_lines = (machine.text_or_none(_SYSTEM_FILE) or "").splitlines()
    for path, lines in ((user.path, user.lines or ()), (f"/{_SYSTEM_FILE}", system_lines)):
        for line in lines:
            if line.strip() and not line.lstrip().startswith("#"):
                yield path, line


def is_name(text: str) -> bool:
    """True if a text can be the name of a variable."""
    return re.fullmatch(r"[A-Za-z_]\w*", text) is not None
