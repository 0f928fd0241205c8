"""Names and numbers of functions, algorithms and protocols, as NCCL and RCCL write them."""

from busbw.traces.format import Algorithm, Function, Protocol

_FUNCTIONS = {one.name.replace("_", ""): one for one in Function}
_ALGORITHMS = {key: one for one in Algorithm for key in (one.name.replace("_", ""), str(int(one)))}
_PROTOCOLS = {key: one for one in Protocol for key in (one.name, str(int(one)))}


def find_function(name: str) -> Function:
    """Returns the function of a name such as "AllReduce". `OTHER` for any other name."""
    return _FUNCTIONS.get(name.upper(), Function.OTHER)


def find_algorithm(name: str) -> Algorithm:
    """Returns the algorithm of a name such as "COLLNET_DIRECT" or "1"."""
    return _ALGORITHMS.get(name.upper().replace("_", ""), Algorithm.UNKNOWN)


def find_protocol(name: str) -> Protocol:
    """Returns the protocol of a name such as "SIMPLE" or "2"."""
    return _PROTOCOLS.get(name.upper(), Protocol.UNKNOWN)
