"""A/B measurement of two sides: setups of one collective that differ in variables, flags, libraries or image.

A block is one start of the engine for one side. A quadruple is four consecutive blocks, in the order ABBA or BAAB.
Before A is compared with B, quadruples of A against A measure the noise. `busbw ab` and `busbw tune` use this package.
"""

from busbw.ab.blocks import BlockEndedError, Measurement
from busbw.ab.session import Session, SessionRules, SessionState
from busbw.ab.sides import SideSpec, parse_side

__all__ = ["BlockEndedError", "Measurement", "Session", "SessionRules", "SessionState", "SideSpec", "parse_side"]
