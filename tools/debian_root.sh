#!/usr/bin/env bash
# Makes an archive of a minimal Debian with some packages, and prints its path. An existing archive is kept. Tests of
# images and installations pull no image, so they use the archive as a clean machine. Needs root and debootstrap.
#
# Usage: tools/debian_root.sh SUITE [PACKAGE]...
set -euo pipefail
cd "$(dirname "$0")/.."

suite=${1:?usage: tools/debian_root.sh SUITE [PACKAGE]...}
packages=$(IFS=,; echo "${*:2}")
mirror=${BUSBW_DEBIAN_MIRROR:-http://deb.debian.org/debian}
work=$PWD/build/debian
archive=$work/$suite${packages:+-$packages}.tar
name=debian-root
log=$work/debootstrap.log
. tools/quietly.sh
PATH=$PATH:/usr/sbin

if [ ! -s "$archive" ]; then
  say "making a Debian $suite from $mirror (once; about half a minute)"
  rm -rf "$work/root"
  quietly debootstrap --variant=minbase ${packages:+"--include=$packages"} "$suite" "$work/root" "$mirror"
  # Packages updated since the release come from the updates archive.
  printf 'deb %s %s main\ndeb %s %s-updates main\n' "$mirror" "$suite" "$mirror" "$suite" >"$work/root/etc/apt/sources.list"
  tar -C "$work/root" --exclude=./var/cache/apt/archives/*.deb -cf "$archive.part" .
  mv "$archive.part" "$archive"
  rm -rf "$work/root"
fi
echo "$archive"
