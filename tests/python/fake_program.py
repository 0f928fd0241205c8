"""A stand-in for a launched engine: it says where it stands, prints a table with records between, and does as told.

It is told by its environment: STAND_IN_CODE_<rank> is its exit code, STAND_IN_PAUSE_S a pause after each line of the
table, STAND_IN_FOLDER where each process writes down what it got, as `<rank>.json`. Processes of one job that write
there speak together, so that what they say alike can be told as one line however busy the machine is.
"""

import sys
from pathlib import Path

GOLDEN_RECORD = Path(__file__).resolve().parents[1] / "golden" / "records.jsonl"
TABLE = ["# a table", *(f"  {row} a row" for row in range(7))]

PROGRAM = f"""#!{sys.executable}
import json, os, signal, sys, time
if sys.argv[1:] == ["--version"]:
    print("busbw 9.9.9\\nbackend host 9.9.9\\nrecord schema 1.0")
    sys.exit(0)
if sys.argv[1:] == ["--list-devices"]:
    sys.exit(0)
rank = os.environ.get("BUSBW_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK") or "0"
folder = os.environ.get("STAND_IN_FOLDER")
size = int(os.environ.get("BUSBW_SIZE") or os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ.get("PMI_SIZE") or "1")
def together(suffix):
    end_s = time.monotonic() + 20  # one of them may never come
    while not all(os.path.exists(f"{{folder}}/{{each}}.{{suffix}}") for each in range(size)):
        if time.monotonic() > end_s:
            break
        time.sleep(0.01)
def ended(number, _frame):
    if folder:
        open(f"{{folder}}/{{rank}}.ended", "w").close()
        together("ended")
    sys.stderr.write(f"stand-in: signal {{number}}\\n")
    sys.exit(128 + number)
signal.signal(signal.SIGINT, ended)
signal.signal(signal.SIGTERM, ended)
if folder:
    about = {{"argv": sys.argv, "environment": dict(os.environ), "pid": os.getpid(), "stdin": sys.stdin.read()}}
    with open(f"{{folder}}/.{{rank}}", "w") as file:
        json.dump(about, file)
    os.rename(f"{{folder}}/.{{rank}}", f"{{folder}}/{{rank}}.json")
    together("json")
sys.stderr.write("stand-in: here\\n")  # in one piece: a signal may come at any time, and its words between two
pause_s = float(os.environ.get("STAND_IN_PAUSE_S", "0"))
records = open({str(GOLDEN_RECORD)!r}, "rb").read().splitlines(keepends=True)
for line, record in zip({TABLE!r}, [*records, b""]):
    if rank == "0":
        sys.stdout.buffer.write(line.encode() + b"\\n" + record)
        sys.stdout.flush()
    time.sleep(pause_s)
sys.exit(int(os.environ.get(f"STAND_IN_CODE_{{rank}}", "0")))
"""


def install(folder: Path) -> Path:
    """Makes a folder with the stand-in as two of the programs."""
    folder.mkdir()
    for name in ("busbw-engine", "all_reduce_perf"):
        (folder / name).write_text(PROGRAM)
        (folder / name).chmod(0o755)
    return folder
