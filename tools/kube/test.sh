#!/usr/bin/env bash
# Tests `busbw launch kubernetes` against a real control plane on this machine. `make kube-test` calls it after
# tools/setup.sh test. tools/kube/build.sh first builds the missing programs.
set -euo pipefail
cd "$(dirname "$0")/../.."

command -v openssl >/dev/null || {
  echo 'kube: the control plane needs openssl for its keys: sudo apt-get install openssl' >&2
  exit 3
}
BUSBW_KUBE=$(tools/kube/build.sh)
export BUSBW_KUBE
exec python -m pytest tests/kube "$@"
