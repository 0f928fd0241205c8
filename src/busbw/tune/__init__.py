"""Search for settings that make a collective faster: screening of many at few sizes, then A/B tests of the best."""

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
