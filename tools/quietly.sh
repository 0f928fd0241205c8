# Shell functions for scripts that run long commands: source this file after setting `name` and `log`.
# shellcheck shell=bash
: "${name:?name of the script}" "${log:?file for the output of commands}"

say() { printf '%s: %s\n' "$name" "$*" >&2; }

# Prints the finished share and the remaining time of the build that writes to $log, from ninja's last "[12/340]".
# Below 10 %, it prints no remaining time, because the first steps are few and unlike the others.
# $1: seconds since the command started.
build_progress() {
  local step steps=0
  IFS=/ read -r step steps < <(grep -aoE '^ *\[[0-9]+/[0-9]+\]' "$log" 2>/dev/null | tail -n 1 | tr -d ' []') || true
  if [ "${steps:-0}" -gt 0 ] && [ "$step" -gt 0 ]; then
    printf '%d s, %d %% built' "$1" $((100 * step / steps))
    [ $((10 * step)) -lt "$steps" ] || printf ', about %d s left' $(($1 * (steps - step) / step))
  else
    printf '%d s' "$1"
  fi
}

# Shows progress until it is killed or the script ends: each second on a terminal, otherwise a line each 30 s.
show_progress() {
  local started=$SECONDS elapsed next=30
  while sleep 1 && kill -0 $$ 2>/dev/null; do
    elapsed=$((SECONDS - started))
    if [ -t 2 ]; then
      [ $elapsed -lt 3 ] || printf '\r\033[K%s: %s' "$name" "$(build_progress $elapsed)" >&2
    elif [ $elapsed -ge $next ]; then # a busy machine may skip a second
      say "$(build_progress $elapsed)"
      next=$((elapsed + 30))
    fi
  done
}

# Runs a command, and shows its output only if it fails.
quietly() {
  local progress_pid code=0
  mkdir -p "$(dirname "$log")"
  : >"$log"
  show_progress &
  progress_pid=$!
  "$@" >"$log" 2>&1 || code=$?
  kill "$progress_pid" 2>/dev/null || true
  wait "$progress_pid" 2>/dev/null || true
  [ ! -t 2 ] || printf '\r\033[K' >&2
  [ $code != 0 ] || return 0
  tail -n 60 "$log" >&2
  say "failed: $* (output: $log)"
  return $code
}
