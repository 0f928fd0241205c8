"""A check, and the values of a machine that it reads."""

from busbw.doctor.model.check import (
    Check,
    CheckTexts,
    Damage,
    Evidence,
    Finding,
    NotApplicable,
    Severity,
    Unreadable,
    check,
    make_check,
    require,
)
from busbw.doctor.model.machine import Absent, Machine, key_text

__all__ = [
    "Absent",
    "Check",
    "CheckTexts",
    "Damage",
    "Evidence",
    "Finding",
    "Machine",
    "NotApplicable",
    "Severity",
    "Unreadable",
    "check",
    "key_text",
    "make_check",
    "require",
]
