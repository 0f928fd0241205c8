"""Regular expressions of messages that NCCL prints. A launcher may have added text before a message."""

import re

HEADER = (
    rb"(?:(?P<host>[^\s:\[\]]{1,255}):(?P<pid>\d{1,10}):(?P<thread>\d{1,10}) )?\[(?P<device>-?\d{1,4})\] "
    rb"(?P<source>\S{1,255}:\d{1,10} )?(?:\(\S{1,255}\) )?NCCL (?P<level>INFO|WARN) "
)
"""Header of a message, "node1:17:42 [3] transport/nvls.cc:379 NCCL WARN ". Some logs lack the host."""
COMMUNICATOR = re.compile(
    r"comm (?P<handle>0x\w+) rank (?P<rank>\d+) n[rR]anks (?P<size>\d+)(?: cudaDev (?P<device>\d+))?"
    r"(?: nvmlDev (?P<gpu>\d+))?(?: busId (?P<bus>\w+))?(?: commId (?P<id>0x\w+))?(?P<split> parent (?P<parent>\w+)"
    r"(?: (?:split|child)Count (?P<split_count>\d+))?(?: color (?P<color>-?\d+) key -?\d+)?"
    r"(?: commId (?P<split_id>0x\w+))?)?"
    r"(?: nNodes (?P<nodes>\d+) localRanks \d+ localRank \d+ MNNVL (?P<mnnvl>\d+))?"
)
"""Message about a rank of a communicator. It ends with "Init START" or "Init COMPLETE".

Example: "comm 0x55e0 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 18000 commId 0x1b2c - Init START".
"""
