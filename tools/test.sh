#!/usr/bin/env bash
# Every test: the engine's, plain and under the sanitizers, then those of the command and of the installed programs.
# tools/setup.sh test comes first; `make test` calls both.
set -euo pipefail
cd "$(dirname "$0")/.."

# Older sanitizer runtimes fail on a machine that spreads addresses widely; without spreading they always run.
fixed_addresses=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
  fixed_addresses=(setarch "$(uname -m)" -R)
fi

for preset in dev asan tsan; do
  printf '== engine tests, %s\n' "$preset"
  mkdir -p "build/$preset"
  log=build/$preset/build.log
  { cmake --preset "$preset" -G Ninja && cmake --build --preset "$preset" --parallel "${JOBS:-$(nproc)}"; } \
    >"$log" 2>&1 || {
    tail -n 60 "$log" >&2
    printf 'the build failed; all of its output: %s\n' "$log" >&2
    exit 1
  }
  "${fixed_addresses[@]}" "build/$preset/engine_tests"
done

echo '== the command and the installed programs'
exec python -m pytest
