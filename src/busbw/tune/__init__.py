"""Looks for settings that make a collective faster: screens many at a few sizes, confirms the best by ab."""

from busbw.tune.confirm import Confirmed, Tuning, confirm
from busbw.tune.knobs import Candidate, Knob, chosen, given, known
from busbw.tune.outputs import TUNER_FIELDS, TUNER_FORMAT, Winner, environment_file, tuner_file
from busbw.tune.screen import Screened, screen, side

__all__ = [
    "TUNER_FIELDS",
    "TUNER_FORMAT",
    "Candidate",
    "Confirmed",
    "Knob",
    "Screened",
    "Tuning",
    "Winner",
    "chosen",
    "confirm",
    "environment_file",
    "given",
    "known",
    "screen",
    "side",
    "tuner_file",
]
