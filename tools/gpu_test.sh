#!/usr/bin/env bash
# Tests the GPU engine on the GPUs of this machine: installs the wheel into a separate environment, runs tests/gpu there
# and keeps the records of all runs. With --wheel, it needs neither a compiler nor a CUDA toolkit.
#
# Usage: tools/gpu_test.sh [--wheel FILE] [--offline FOLDER] [--results FOLDER] [--jobs N] [--prepare]
#                          [-- PYTEST ARGUMENTS]
#   --wheel FILE         wheel to test (default: built from this source tree)
#   --offline FOLDER     use no network: take packages from the environment of $PYTHON, and the rest as wheels from FOLDER
#   --results FOLDER     folder for records and summary (default: build/gpu-results-<time>)
#   --jobs N             parallel tests with pytest-xdist (default 2); tests that measure times run alone
#   --prepare            only make the environment
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
    *) fail "unknown option $1; allowed are --wheel, --offline, --results, --jobs and --prepare" ;;
  esac
  shift 2
done
cd "$root"

# A wheel in dist/ may be outdated, so only a wheel given by --wheel is used without a build.
[ -n "$wheel" ] || wheel=$(realpath "$(tools/wheel.sh)")
[ -d "$results" ] && [ -n "$(ls -A "$results")" ] && fail "$results is not empty; set another folder with --results"
mkdir -p "$results"

# ---- the environment -------------------------------------------------------------------------------------------------
venv=$root/build/gpu-env
say "installing $(basename "$wheel") into $venv"
mkdir -p "$root/build"
"$python" -m venv --clear --without-pip "$venv"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
pip=("$python" -m pip --python "$venv/bin/python" --disable-pip-version-check)
if [ -n "$offline" ]; then
  # A .pth file makes the packages of $PYTHON's environment importable. The link is needed, because programs search NCCL
  # only in their own environment.
  outer=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  printf '%s\n' "$outer" >"$site/outer.pth"
  [ -d "$outer/nvidia" ] && ln -s "$outer/nvidia" "$site/nvidia"
  "${pip[@]}" install --quiet --no-index --find-links "$offline" "$wheel"
else
  "${pip[@]}" install --quiet "$wheel[gpu]" 'pytest>=8,<10' 'pytest-xdist>=3,<4'
fi
[ -z "$prepare" ] || exit 0

# ---- the tests -------------------------------------------------------------------------------------------------------
# --offline may expose many pytest plugins of the surrounding environment, which the tests do not need.
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
parallel=()
"$venv/bin/python" -c 'import xdist' 2>/dev/null && [ "$jobs" != 1 ] && parallel=(-p xdist -n "$jobs")
# NVLink multicast stays off unless the caller enables it: a fault in it can disable every GPU of a host.
export NCCL_NVLS_ENABLE=${NCCL_NVLS_ENABLE:-0}
code=0
"$venv/bin/python" -m pytest tests/gpu -p no:cacheprovider "${parallel[@]}" --results "$results/records" \
  --junit-xml "$results/tests.xml" --durations 15 "$@" 2>&1 | tee "$results/tests.txt" || code=${PIPESTATUS[0]}
"$venv/bin/busbw-engine" --list-devices >"$results/devices.txt" 2>&1 || true
say "$(tail -n 1 "$results/tests.txt"); records and summary: $results"
exit "$code"
