#!/bin/sh
# Examines this node with `busbw doctor` and prints one line. Exit codes, as those of node-problem-detector's plugins:
# 0 nothing is broken, 1 something is broken, 2 unknown. BUSBW_DOCTOR replaces the command, for example to add
# `--fail-on broken,slow` or `--ignore NAME`.
doctor=${BUSBW_DOCTOR:-busbw doctor --fail-on broken}

result=$(timeout 30 sh -c "$doctor --json" 2>/dev/null)
code=$?

# The worst finding is the first. A crash of Python also has exit code 1, but prints no finding.
check=$(printf '%s\n' "$result" | sed -n 's/.*"findings":\[{"check":"\([a-z0-9-]*\)".*/\1/p')
problem=$(printf '%s\n' "$result" | grep -oE '"problem":"([^"\\]|\\.)*"' | head -n 1 | cut -d '"' -f 4- | sed 's/"$//; s/\\"/"/g')

case $code in
    0) echo "nothing is broken" ;;
    1 | 5)
        if [ -n "$check" ]; then
            printf '%s: %s\n' "$check" "$problem" | cut -c 1-240
            exit 1
        fi
        ;;
    3) unknown=$(printf '%s\n' "$result" | sed -n 's/.*"could_not_check":\[{"check":"\([a-z0-9-]*\)".*/\1/p') ;;
esac
[ "$code" = 0 ] && exit 0
echo "unknown: ${unknown:-the examination ended with exit code $code}"
exit 2
