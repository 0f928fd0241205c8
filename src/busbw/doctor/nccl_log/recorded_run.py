"""A measured run in the form of a log of NCCL, so that the checks of variables also examine the record of a run."""

from busbw.doctor.nccl_log.nccl_log import Communicator, Message, NcclLog, Process
from busbw.logs import Table
from busbw.system import find_in_text


def log_of_run(table: Table) -> NcclLog:
    """Returns the variables and ranks of a run. The log has no messages about networks and connections."""
    host = table.hosts[0] if table.hosts else ""
    process = Process(host, pid="")
    messages = [
        Message(process, level="INFO", text=f"{name} set by environment to {value}", place="environment of the run")
        for name, value in table.environment.items()
    ]
    ranks = {rank.rank: Process(rank.host or "", str(rank.pid or "")) for rank in table.rank_list}
    system = find_in_text(table.devices[0]) if len(table.devices) == 1 else None
    communicator = Communicator(size=table.ranks or len(ranks), ranks=ranks)
    return NcclLog(messages=messages, communicators=[communicator], system=system)
