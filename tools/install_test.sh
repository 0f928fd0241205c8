#!/usr/bin/env bash
# Installs a wheel with pip on clean machines (minimal Debian 12 and 13 in a chroot) and prints the time from `pip
# install` to the end of the first table. Fails if this takes more than 30 s. Wheels of the dependencies are downloaded
# before, so that the network does not count.
#
# Usage: tools/install_test.sh [WHEEL]    (default: dist/busbw-*.whl; needs root, debootstrap and a network)
set -euo pipefail
cd "$(dirname "$0")/.."

max_s=30
work=$PWD/build/install-test
name=install-test
log=$work/log
. tools/quietly.sh

wheel=${1:-$(echo dist/busbw-*.whl)}
[ -s "$wheel" ] || { say "no wheel found: make wheel, or make wheel CPU=1"; exit 3; }
[ "$(id -u)" = 0 ] || { say "needs root for chroot"; exit 3; }
command -v debootstrap >/dev/null || [ -x /usr/sbin/debootstrap ] || { say "apt-get install debootstrap"; exit 3; }

root=$work/root
clean_up() {
  umount "$root/proc" "$root/dev/shm" 2>/dev/null || true
  rm -rf "$root"
}
trap clean_up EXIT

for suite in bookworm trixie; do
  archive=$(tools/debian_root.sh $suite python3-venv ca-certificates)
  clean_up
  mkdir -p "$root"
  tar -C "$root" -xf "$archive"
  mkdir -p "$root/proc" "$root/dev/shm" "$root/wheels"
  mount -t proc proc "$root/proc"
  mount -t tmpfs tmpfs "$root/dev/shm"
  cp "$wheel" "$root/wheels/"
  # pip must trust the same certificates as this machine, for example that of a proxy.
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" 2>/dev/null || true
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  [ ! -s /etc/hosts ] || cp /etc/hosts "$root/etc/hosts"
  say "$suite: downloading the wheels of the dependencies"
  quietly chroot "$root" sh -c 'python3 -m venv /venv && PIP_CERT=/etc/ssl/certs/ca-certificates.crt /venv/bin/pip download \
    --disable-pip-version-check --only-binary :all: --dest /wheels /wheels/busbw-*.whl'
  started=$(date +%s%N)
  quietly chroot "$root" sh -c '/venv/bin/pip install --disable-pip-version-check --no-index --find-links /wheels busbw'
  installed=$(date +%s%N)
  chroot "$root" /venv/bin/busbw run all_reduce --ranks 2 -e 1M -n 5 >"$work/$suite.out" 2>"$work/$suite.err" ||
    { cat "$work/$suite.out" "$work/$suite.err" >&2; say "$suite: busbw run failed"; exit 1; }
  ended=$(date +%s%N)
  grep -q 'Out of bounds values : 0 OK' "$work/$suite.out" || { say "$suite: no table in $work/$suite.out"; exit 1; }
  python=$(chroot "$root" python3 --version)
  total_ms=$(((ended - started) / 1000000))
  printf '%s (%s): pip install %d ms, first table %d ms\n' "$suite" "$python" $(((installed - started) / 1000000)) \
    $(((ended - installed) / 1000000))
  [ $total_ms -le $((max_s * 1000)) ] || { say "$suite: $total_ms ms, more than $max_s s"; exit 1; }
done
