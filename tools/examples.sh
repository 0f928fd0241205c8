#!/usr/bin/env bash
# Rebuilds docs/examples/: the report of the five published logs in tests/golden/seeds, and a screenshot of its top. Three
# of the logs name their hardware only in prose, so --system LOG[.TABLE]=NAME sets it.
#
# Usage: tools/examples.sh      (needs `make run` first, and chromium for the picture)
set -euo pipefail
cd "$(dirname "$0")/.."
busbw=${BUSBW:-.venv/bin/busbw}
out=docs/examples/seeds

mkdir -p docs/examples
"$busbw" report tests/golden/seeds --title 'Five published NCCL measurements' \
  --system 2=h200-sxm --system 3=h100-sxm \
  --system 4.1=a100-p4d --system 4.2=h100-p5 --system 4.3=h100-p5 -o $out.html
chromium --headless --no-sandbox --hide-scrollbars --window-size=1280,900 --screenshot="$PWD/$out.png" \
  "file://$PWD/$out.html" 2>/dev/null
ls -l $out.html $out.png
