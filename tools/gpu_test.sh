#!/usr/bin/env bash
# Tests the GPU engine on the GPUs of this machine: puts the wheel into an environment of its own, runs tests/gpu there
# and keeps the records of all runs. It takes neither a compiler nor a CUDA toolkit.
#
# Usage: tools/gpu_test.sh [--wheel FILE] [--offline FOLDER] [--results FOLDER] [--jobs N] [--prepare] [-- PYTEST ARGUMENTS]
#   --wheel FILE         the wheel to test (default: one of this source tree, which is built first)
#   --offline FOLDER     no network: what the environment of $PYTHON has is used, the rest comes as wheels from FOLDER
#   --results FOLDER     where records and summary go (default: build/gpu-results-<time>)
#   --jobs N             tests that run side by side, where pytest-xdist is there (default 2); those about times have the GPUs alone
#   --prepare            make the environment only
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

say() { printf 'gpu-test: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit 2
}

python=${PYTHON:-python3}
wheel='' offline='' results=$root/build/gpu-results-$(date +%Y%m%d-%H%M%S) jobs=2 prepare=''
while [ $# -gt 0 ]; do
  case $1 in
    --wheel) wheel=$(realpath "$2") ;;
    --offline) offline=$(realpath "$2") ;;
    --results) results=$(realpath -m "$2") ;;
    --jobs) jobs=$2 ;;
    --prepare)
      prepare=yes
      shift
      continue
      ;;
    --)
      shift
      break
      ;;
    *) fail "there is no $1; allowed are --wheel, --offline, --results, --jobs and --prepare" ;;
  esac
  shift 2
done
cd "$root"

# A wheel that lies in dist/ may be of older sources: only one that is named is taken as it is.
[ -n "$wheel" ] || wheel=$(realpath "$(tools/wheel.sh)")
[ -d "$results" ] && [ -n "$(ls -A "$results")" ] && fail "$results is not empty: name another folder with --results"
mkdir -p "$results"

# ---- the environment -------------------------------------------------------------------------------------------------
venv=$root/build/gpu-env
say "putting $(basename "$wheel") into $venv"
mkdir -p "$root/build"
"$python" -m venv --clear --without-pip "$venv"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
pip=("$python" -m pip --python "$venv/bin/python" --disable-pip-version-check)
if [ -n "$offline" ]; then
  # What the surrounding environment has counts as installed; NCCL is looked for in the environment of the programs.
  outer=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  printf '%s\n' "$outer" >"$site/outer.pth"
  [ -d "$outer/nvidia" ] && ln -s "$outer/nvidia" "$site/nvidia"
  "${pip[@]}" install --quiet --no-index --find-links "$offline" "$wheel"
else
  "${pip[@]}" install --quiet "$wheel[gpu]" 'pytest>=8,<10' 'pytest-xdist>=3,<4'
fi
[ -z "$prepare" ] || exit 0

# ---- the tests -------------------------------------------------------------------------------------------------------
# Plugins of the surrounding environment, of which --offline may bring many, are not the tests' business.
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
side_by_side=()
"$venv/bin/python" -c 'import xdist' 2>/dev/null && [ "$jobs" != 1 ] && side_by_side=(-p xdist -n "$jobs")
# Multicast over NVLink stays off unless the caller has turned it on: a fault in it can take down every GPU of a host.
export NCCL_NVLS_ENABLE=${NCCL_NVLS_ENABLE:-0}
code=0
"$venv/bin/python" -m pytest tests/gpu -p no:cacheprovider "${side_by_side[@]}" --results "$results/records" \
  --junit-xml "$results/tests.xml" --durations 15 "$@" 2>&1 | tee "$results/tests.txt" || code=${PIPESTATUS[0]}
"$venv/bin/busbw-engine" --list-devices >"$results/devices.txt" 2>&1 || true
say "$(tail -n 1 "$results/tests.txt"); records and summary: $results"
exit "$code"
