"""Recent lines of the kernel log."""

import re

from busbw.doctor.model import Machine, Unreadable
from busbw.doctor.parts.platform import uptime_s

_LINE = re.compile(r"(?:<\d+>)?\[ *(\d{1,12})\.\d+\] *(.*)")


def recent_lines(machine: Machine, window_s: int) -> list[str]:
    """Returns the lines of the last `window_s` seconds, without time.

    Raises:
        Unreadable: The log cannot be read, or its lines have no time.
    """
    start_s = uptime_s(machine) - window_s
    matches = [match for line in machine.output("dmesg").splitlines() if (match := _LINE.match(line))]
    if not matches:
        raise Unreadable("lines with times in the kernel log")
    return [match[2] for match in matches if int(match[1]) >= start_s]
