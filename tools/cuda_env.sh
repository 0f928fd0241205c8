#!/usr/bin/env bash
# Makes the environment build/cuda-env with CUDA's compiler and NCCL's headers from PyPI. An environment with these
# versions is kept. The script needs neither a GPU nor a CUDA toolkit.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=build/cuda-env
name=cuda-env
log=build/cuda-env.log
. tools/quietly.sh
tools=('cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==13.0.*' 'nvidia-nccl-cu13==2.28.9')

tool_list=$(printf '%s\n' "${tools[@]}")
[ "$(cat $environment/complete 2>/dev/null)" != "$tool_list" ] || exit 0
say "making the environment $environment with CUDA's compiler (some 150 MB from PyPI)"
quietly "${PYTHON:-python3}" -m venv --clear $environment
quietly $environment/bin/python -m pip install --disable-pip-version-check --no-cache-dir "${tools[@]}"
printf '%s\n' "$tool_list" >$environment/complete
