"""Measures two ways of running a collective against each other: interleaved, with the noise measured first."""

from busbw.ab.blocks import BlockEndedError, Measurement
from busbw.ab.session import Session, SessionRules, SessionState
from busbw.ab.sides import SideSpec, parse_side

__all__ = ["BlockEndedError", "Measurement", "Session", "SessionRules", "SessionState", "SideSpec", "parse_side"]
