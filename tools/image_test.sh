#!/usr/bin/env bash
# Builds the CPU image and runs all_reduce in it: in one container, then in two containers as one job over the host's
# network. Also tests the image for MPIJob. The script pulls no image: it makes the base image from Debian packages. Its
# files are in build/image. Storage and outputs are removed at the end, and the base and the logs of the builds remain.
#
# Needs root, buildah, podman, runc and debootstrap, and a network for distribution and Python packages.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$PWD/build/image
store=(--root "$work/storage" --runroot "$work/run" --storage-driver vfs)
image=localhost/busbw:image-test

say() { printf 'image-test: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit 1
}

missing=()
for tool in buildah podman runc debootstrap; do
  command -v "$tool" >/dev/null || [ -x "/usr/sbin/$tool" ] || missing+=("$tool")
done
if [ "${#missing[@]}" != 0 ] || [ "$(id -u)" != 0 ]; then
  say "needs root, and buildah, podman, runc and debootstrap${missing[*]:+; missing: ${missing[*]}}"
  exit 3
fi
PATH=$PATH:/usr/sbin

container_names=()
clean_up() {
  trap '' INT TERM
  for name in "${container_names[@]}"; do
    podman "${store[@]}" --cgroup-manager=cgroupfs --runtime=runc rm --force --time 2 "$name" >/dev/null 2>&1 || true
  done
  rm -rf "$work/storage" "$work/run" "$work/secret" "$work"/*.out "$work"/*.err
}
trap clean_up EXIT
trap 'exit 130' INT TERM
mkdir -p "$work"
rm -rf "$work/storage" "$work/run"

# ---- the base: a small Debian from its packages ----------------------------------------------------------------------
base=$(tools/debian_root.sh bookworm)

# The build must trust the same certificates as this machine, for example that of a proxy.
build_options=()
certificates=/etc/ssl/certs/ca-certificates.crt
if [ -s "$certificates" ]; then
  cp "$certificates" "$work/ca.crt"
  printf '[global]\ncert = /run/busbw-ca.crt\ntimeout = 180\n' >"$work/pip.conf"
  build_options=(--volume "$work/ca.crt:/run/busbw-ca.crt:ro" --volume "$work/pip.conf:/etc/pip.conf:ro")
fi

build() { # target name [option]...
  say "building the target $1 (minutes; output: $work/build-$1.log)"
  buildah "${store[@]}" bud --isolation chroot --format docker --build-arg BASE=localhost/busbw-base \
    --build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)" "${build_options[@]}" "${@:3}" \
    --target "$1" -t "$2" -f deploy/Dockerfile . >"$work/build-$1.log" 2>&1 || {
    tail -n 40 "$work/build-$1.log" >&2
    fail "the image was not built: see $work/build-$1.log"
  }
}

# Runs a container with runc, because crun refuses mixed control groups. The limits are fixed, because a container within
# a container may not raise limits.
run() {
  podman "${store[@]}" --cgroup-manager=cgroupfs --runtime=runc run --rm --network=host \
    --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "$@"
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

ln -f "$base" "$work/base.tar" # the build reads only files of its folder
printf 'FROM scratch\nADD base.tar /\n' >"$work/Dockerfile.base"
buildah "${store[@]}" bud --isolation chroot --format docker -t localhost/busbw-base -f "$work/Dockerfile.base" "$work" \
  >"$work/build-base.log" 2>&1 || fail "the base was not built: see $work/build-base.log"
build cpu "$image"

# ---- labels, user and programs of the image --------------------------------------------------------------------------
say "labels, user and programs of the image"
for label in title description version revision; do
  [ -n "$(buildah "${store[@]}" inspect --type image --format "{{index .OCIv1.Config.Labels \"org.opencontainers.image.$label\"}}" "$image")" ] ||
    fail "the label $label is missing"
done
programs=$(sed -n 's/^name = "\(.*\)"$/\1_perf/p' src/busbw/collectives.toml)
# One container for all programs, because the storage copies the whole image for each container.
# shellcheck disable=SC2016
run "$image" bash -euc '
  [ "$(id -u)" = 1000 ] || { echo "the user is $(id)"; exit 1; }
  for program in "$@" busbw; do "$program" --version </dev/null | grep -q . || { echo "$program does not run"; exit 1; }; done
  busbw launch machine-types | grep -q p5.48xlarge || { echo "the machine types are missing"; exit 1; }
  if command -v sshd mpirun; then echo "neither sshd nor mpirun is needed here"; exit 1; fi
' bash $programs || fail "the image is wrong"

# ---- the main job in one container -----------------------------------------------------------------------------------
say "busbw run all_reduce, in one container"
run "$image" busbw run all_reduce -t 2 -b 8 -e 1M -f 8 -n 5 >"$work/one.out" || fail "busbw run failed"
grep -q 'Out of bounds values : 0 OK' "$work/one.out" || fail "the table is incomplete or wrong: $work/one.out"

# ---- two containers, one job -----------------------------------------------------------------------------------------
say "one job of two containers over the host's network"
port=$(free_port)
mkdir -m 755 "$work/secret"
head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/secret/token"
chown 1000:1000 "$work/secret/token"
chmod 600 "$work/secret/token"
pids=()
for rank in 0 1; do
  name=busbw-image-test-$$-$rank
  container_names+=("$name")
  run --name "$name" --volume "$work/secret:/run/secret:ro" \
    --env BUSBW_RANK=$rank --env BUSBW_SIZE=2 --env "BUSBW_RENDEZVOUS=tcp://127.0.0.1:$port" \
    --env BUSBW_TOKEN_FILE=/run/secret/token \
    "$image" all_reduce_perf --backend host -t 1 -b 8 -e 1M -f 8 -n 5 -T 60 </dev/null \
    >"$work/two-$rank.out" 2>"$work/two-$rank.err" &
  pids+=($!)
done
for rank in 0 1; do
  wait "${pids[$rank]}" || {
    cat "$work"/two-*.err "$work"/two-*.out >&2
    fail "process $rank of the job of two containers failed"
  }
done
grep -q 'Out of bounds values : 0 OK' "$work/two-0.out" || fail "the table of two containers is incomplete or wrong"
[ ! -s "$work/two-1.out" ] || fail "only process 0 writes a table"
[ "$(grep -c '^# *Rank ' "$work/two-0.out")" = 2 ] || fail "the table does not name both ranks"

# ---- the image for MPIJob: sshd without privileges, and mpirun -------------------------------------------------------
build mpijob "$image-mpijob" --build-arg "VARIANT=$image"
say "sshd without privileges, mpirun, and a program over ssh"
port=$(free_port)
# shellcheck disable=SC2016
run "$image-mpijob" bash -euc '
  mkdir -p ~/.ssh
  ssh-keygen -q -t ed25519 -N "" -f ~/.ssh/id_ed25519
  cp ~/.ssh/id_ed25519.pub ~/.ssh/authorized_keys
  /usr/sbin/sshd -De -p "$1" -o ListenAddress=127.0.0.1 2>~/sshd.log &
  for _ in $(seq 50); do ssh -p "$1" 127.0.0.1 true 2>/dev/null && break; sleep 0.1; done
  ssh -p "$1" 127.0.0.1 all_reduce_perf --version || { cat ~/sshd.log; exit 1; }
  mpirun --oversubscribe -np 2 true
' bash "$port" >"$work/mpijob.out" 2>&1 || {
  cat "$work/mpijob.out" >&2
  fail "sshd or mpirun does not work in the image for MPIJob"
}
say "good"
