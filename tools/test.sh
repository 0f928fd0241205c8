#!/usr/bin/env bash
# Runs all tests: those of engine and fast path under the sanitizers, of the Python command, and of the installed
# programs. Some tests try fewer cases under a sanitizer. So the tests also run without one: in the build for GPUs, or in
# the build `dev` if CUDA's compiler is missing. `make test` calls tools/setup.sh test first.
set -euo pipefail
cd "$(dirname "$0")/.."

# Older sanitizer runtimes fail with wide address space randomization, so it is turned off.
fixed_addresses=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
  fixed_addresses=(setarch "$(uname -m)" -R)
fi

# Folder in which the installed busbw was built, or empty. The build for GPUs uses its host libraries instead of compiling the
# same sources again.
host_build=
for library in "$PWD"/build/py3-none-*_"$(uname -m)"/libbusbw_engine_host.a; do
  [ ! -e "$library" ] || host_build=${library%/*}
done

# Builds one preset. If that fails, prints the end of the log and ends the script.
build() {
  local preset=$1 log=build/$1/build.log settings=()
  [ "$preset" != gpu-compile ] || settings=("-DBUSBW_HOST_BUILD=$host_build")
  mkdir -p "build/$preset"
  { cmake --preset "$preset" -G Ninja "${settings[@]}" && cmake --build --preset "$preset" --parallel "${JOBS:-$(nproc)}"; } \
    >"$log" 2>&1 || {
    tail -n 60 "$log" >&2
    printf 'the build failed; see %s\n' "$log" >&2
    exit 1
  }
}

# Number of parts of the engine's tests that run in parallel, because these tests mostly wait. The slow tests are neighbors,
# so a fixed random order distributes them among the parts.
engine_parts=6
engine_order=(--order-by=rand --rand-seed=1)

# Runs the tests of engine and fast path of one preset. Each part writes its own log.
run_tests() {
  local folder=build/$1 code=0 count part pid pids=()
  # Each test of the profiler plugin loads a copy of the plugin, with its state per thread in static TLS. By default,
  # glibc has space for only about 30 copies.
  local -x GLIBC_TUNABLES=glibc.rtld.optional_static_tls=65536
  count=$("${fixed_addresses[@]}" "$folder/engine_tests" --count | grep -o '[0-9]*$') || return 1
  for part in $(seq "$engine_parts"); do
    "${fixed_addresses[@]}" "$folder/engine_tests" "${engine_order[@]}" \
      --first=$(((part - 1) * count / engine_parts + 1)) --last=$((part * count / engine_parts)) \
      >"$folder/tests-engine-$part.log" 2>&1 &
    pids+=($!)
  done
  "${fixed_addresses[@]}" "$folder/fastpath_tests" >"$folder/tests-fastpath.log" 2>&1 &
  pids+=($!)
  for pid in "${pids[@]}"; do wait "$pid" || code=1; done
  return "$code"
}

# Prints the result of one preset: doctest's summary, or the end of the log of each part that failed.
print_result() {
  local preset=$1 code=0 log logs=()
  for part in $(seq "$engine_parts"); do logs+=("build/$preset/tests-engine-$part.log"); done
  logs+=("build/$preset/tests-fastpath.log")
  printf '== engine and fast path, %s\n' "$preset"
  for log in "${logs[@]}"; do
    grep -qs 'Status: SUCCESS' "$log" && continue
    code=1
    [ -e "$log" ] || { printf 'not run: %s\n' "$log" >&2; continue; }
    tail -n 100 "$log"
    printf 'tests failed, preset %s; see %s\n' "$preset" "$log" >&2
  done
  # doctest's summary of each part counts all tests, so equal lines are printed once.
  [ "$code" -ne 0 ] || grep -h '^\[doctest\] test cases' "${logs[@]}" | tr -s ' ' | uniq
  return "$code"
}

if [ -e build/cuda-env/complete ]; then presets=(gpu-compile tsan asan); else presets=(dev tsan asan); fi
rm -f build/{dev,gpu-compile,asan,tsan}/tests-*.log build/tests-programs.log
code=0 pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true' EXIT

# Builds use all processors and most tests of engine and programs wait. So each of these tests starts as soon as it can, and
# runs during the next builds. The tests of the command need all processors, so they come last and leave no processor idle.
for preset in "${presets[@]}"; do
  build "$preset"
  run_tests "$preset" &
  pids+=($!)
  # The first preset builds the fast path's libraries for the tests of the installed programs.
  [ "$preset" = "${presets[0]}" ] || continue
  python -m pytest -n 4 --dist loadfile --no-loadscope-reorder tests/integration >build/tests-programs.log 2>&1 &
  pids+=($!)
done
echo '== the command'
# Few workers, because each needs ten seconds of processor time to collect the tests.
python -m pytest -n 3 --dist loadfile tests/python || code=$?

for pid in "${pids[@]}"; do wait "$pid" || code=1; done
echo '== the installed programs'
cat build/tests-programs.log
for preset in "${presets[@]}"; do print_result "$preset" || code=1; done
exit "$code"
