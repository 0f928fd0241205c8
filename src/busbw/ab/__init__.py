"""A/B measurement: runs two setups of one collective in interleaved blocks, after measuring the noise."""

from busbw.ab.blocks import BlockEndedError, Measurement
from busbw.ab.session import Session, SessionRules, SessionState
from busbw.ab.sides import SideSpec, parse_side

__all__ = ["BlockEndedError", "Measurement", "Session", "SessionRules", "SessionState", "SideSpec", "parse_side"]
