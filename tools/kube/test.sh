#!/usr/bin/env bash
# Tests of `busbw launch kubernetes` against a real control plane on this machine; `make kube-test` calls it after
# tools/setup.sh test. What they run is built first, where it is not there yet: see tools/kube/build.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."

command -v openssl >/dev/null || {
  echo 'kube: the control plane needs openssl for its keys: sudo apt-get install openssl' >&2
  exit 3
}
BUSBW_KUBE=$(tools/kube/build.sh)
export BUSBW_KUBE
exec python -m pytest tests/kube "$@"
