#!/usr/bin/env bash
# Measures how much `busbw record` slows small all-reduces: runs without and with the profiler plugin, interleaved. First
# the plugin records only what the host sees, then also the times of the device.
#
# Usage: bench/gpu_recording.sh [ENGINE FLAGS]    # default: -t 2 -b 1K -e 1K
set -euo pipefail
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
[ $# -gt 0 ] || set -- -t 2 -b 1K -e 1K
for times in off on; do
  variables=$(busbw record --env -o "$out/$times" --device-times "$times" | sed 's/^export //' | paste -sd ' ')
  printf '== device times %s\n' "$times"
  busbw ab all_reduce --b "$variables" --resolution 0.5% --records-folder "$out/records-$times" "$@"
  ls "$out/$times"/*.trace >/dev/null # fails if NCCL did not load the plugin
done
