"""Looks for settings that make a collective faster: screens many at a few sizes, confirms the best by ab."""

from busbw.tune.confirm import ConfirmedCandidate, TuningResult, confirm
from busbw.tune.knobs import Candidate, Knob, default_candidates, load_knobs, parse_knobs
from busbw.tune.outputs import TUNER_FIELDS, TUNER_FORMAT, Winner, environment_file, tuner_file
from busbw.tune.screen import ScreenedCandidate, screen, side

__all__ = [
    "TUNER_FIELDS",
    "TUNER_FORMAT",
    "Candidate",
    "ConfirmedCandidate",
    "Knob",
    "ScreenedCandidate",
    "TuningResult",
    "Winner",
    "confirm",
    "default_candidates",
    "environment_file",
    "load_knobs",
    "parse_knobs",
    "screen",
    "side",
    "tuner_file",
]
