"""Search for settings that make a collective faster, for `busbw tune`.

A knob is one tunable factor. A setting is a group of environment variables, and a candidate is a setting to try
(`knobs`). `screen` measures many candidates at few sizes. `confirm` measures the best ones by A/B sessions. `outputs`
formats the files.
"""

from busbw.tune.confirm import TuningResult, confirm
from busbw.tune.knobs import Candidate, default_candidates, load_knobs, parse_knobs
from busbw.tune.outputs import TUNER_FIELDS, TUNER_FORMAT, Winner, environment_file, tuner_file
from busbw.tune.screen import ScreenedCandidate, screen, with_settings

__all__ = [
    "TUNER_FIELDS",
    "TUNER_FORMAT",
    "Candidate",
    "ScreenedCandidate",
    "TuningResult",
    "Winner",
    "confirm",
    "default_candidates",
    "environment_file",
    "load_knobs",
    "parse_knobs",
    "screen",
    "tuner_file",
    "with_settings",
]
