#!/usr/bin/env bash
# Makes docs/examples/ again: the report of the five published logs in tests/golden/seeds, and a picture of its beginning.
# The second and third log say only in their running text what they ran on, so it is said here.
#
# Usage: tools/examples.sh      (needs `make run` before, and a chromium for the picture)
set -euo pipefail
cd "$(dirname "$0")/.."
busbw=${BUSBW:-.venv/bin/busbw}
out=docs/examples/seeds

mkdir -p docs/examples
"$busbw" report tests/golden/seeds --title 'Five published NCCL measurements' \
  --system 2=h200-sxm --system 3=h100-sxm -o $out.html
chromium --headless --no-sandbox --hide-scrollbars --window-size=1280,900 --screenshot="$PWD/$out.png" \
  "file://$PWD/$out.html" 2>/dev/null
ls -l $out.html $out.png
