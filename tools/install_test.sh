#!/usr/bin/env bash
# Installs a wheel with pip on clean machines (minimal Debian 12 and 13 in a chroot) and prints the time from `pip
# install` to the end of the first table. Fails if this takes more than 30 s. Wheels of the dependencies are downloaded
# before, so that the network does not count.
#
# Usage: tools/install_test.sh [WHEEL [ARCHIVE...]]    (default: dist/busbw-*.whl; needs root, debootstrap and a network)
#
# ARCHIVE is a tar file of another root file system, such as that of a RHEL 9 image (podman export). It is tested instead of
# Debian. GUEST_PYTHON=python3.11 names a Python in it that is 3.10 or later and has venv (default: python3).
set -euo pipefail
cd "$(dirname "$0")/.."

max_s=30
work=$PWD/build/install-test
name=install-test
log=$work/log
. tools/quietly.sh

wheel=${1:-$(echo dist/busbw-*.whl)}
systems=("${@:2}")
[ ${#systems[@]} -gt 0 ] || systems=(bookworm trixie)
guest_python=${GUEST_PYTHON:-python3}
[ -s "$wheel" ] || { say "no wheel found: make wheel, or make wheel CPU=1"; exit 3; }
[ "$(id -u)" = 0 ] || { say "needs root for chroot"; exit 3; }
[ $# -gt 1 ] || command -v debootstrap >/dev/null || [ -x /usr/sbin/debootstrap ] ||
  { say "apt-get install debootstrap"; exit 3; }

root=$work/root
clean_up() {
  umount "$root/proc" "$root/dev/shm" 2>/dev/null || true
  rm -rf "$root"
}
trap clean_up EXIT

for system in "${systems[@]}"; do
  if [ $# -gt 1 ]; then archive=$system; else archive=$(tools/debian_root.sh "$system" python3-venv ca-certificates); fi
  system=$(basename "$system")
  clean_up
  mkdir -p "$root"
  tar -C "$root" -xf "$archive"
  mkdir -p "$root/proc" "$root/dev/shm" "$root/wheels"
  mount -t proc proc "$root/proc"
  mount -t tmpfs tmpfs "$root/dev/shm"
  cp "$wheel" "$root/wheels/"
  # pip must trust the same certificates as this machine, for example that of a proxy.
  mkdir -p "$root/etc/ssl/certs"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" 2>/dev/null || true
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  [ ! -s /etc/hosts ] || cp /etc/hosts "$root/etc/hosts"
  say "$system: downloading the wheels of the dependencies"
  quietly chroot "$root" sh -c "$guest_python"' -m venv /venv && PIP_CERT=/etc/ssl/certs/ca-certificates.crt /venv/bin/pip download \
    --disable-pip-version-check --only-binary :all: --dest /wheels /wheels/busbw-*.whl'
  started=$(date +%s%N)
  quietly chroot "$root" sh -c '/venv/bin/pip install --disable-pip-version-check --no-index --find-links /wheels busbw'
  installed=$(date +%s%N)
  chroot "$root" /venv/bin/busbw run all_reduce --ranks 2 -e 1M -n 5 >"$work/$system.out" 2>"$work/$system.err" ||
    { cat "$work/$system.out" "$work/$system.err" >&2; say "$system: busbw run failed"; exit 1; }
  ended=$(date +%s%N)
  grep -q 'Out of bounds values : 0 OK' "$work/$system.out" || { say "$system: no table in $work/$system.out"; exit 1; }
  python=$(chroot "$root" "$guest_python" --version)
  total_ms=$(((ended - started) / 1000000))
  printf '%s (%s): pip install %d ms, first table %d ms\n' "$system" "$python" $(((installed - started) / 1000000)) \
    $(((ended - installed) / 1000000))
  [ $total_ms -le $((max_s * 1000)) ] || { say "$system: $total_ms ms, more than $max_s s"; exit 1; }
done
