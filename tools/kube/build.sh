#!/usr/bin/env bash
# Builds the programs for `make kube-test` from the Go module proxy alone: API server, kubectl, controller manager,
# scheduler, etcd, kwok (simulated nodes and pods), the MPI operator and JobSet, and their definitions for a cluster.
# The first build takes 10 to 15 minutes on 2 cores, 500 MB, and about 7 GB in Go's caches. Existing files are kept.
#
# Usage: tools/kube/build.sh [FOLDER]      FOLDER/bin gets the programs, FOLDER/share the definitions
#        (without it: $BUSBW_KUBE, else build/kube)
set -euo pipefail
cd "$(dirname "$0")/../.."

# Versions of all programs. Kubernetes v1.X.Y belongs to version v0.X.Y of its libraries (see build).
kubernetes=v1.36.3 etcd=v3.7.3 kwok=v0.8.0 mpi_operator=v0.6.0 jobset=v0.8.0

folder=${1:-${BUSBW_KUBE:-build/kube}}
mkdir -p "$folder/bin" "$folder/share" "$folder/modules"
folder=$(cd "$folder" && pwd)
command -v go >/dev/null || {
  echo 'kube: no Go compiler found: install Go 1.25 or later (https://go.dev/dl), then run this again' >&2
  exit 3
}
export CGO_ENABLED=0 GOFLAGS='-buildvcs=false -mod=mod'

# Prints one field of `go mod download -json` for a module and version.
module_field() { # module version field
  (cd "$folder" && go mod download -json "$1@$2") | sed -n "s/^\t\"$3\": \"\(.*\)\",\{0,1\}$/\1/p"
}

# Builds one program, unless it exists. `go install MODULE@VERSION` refuses modules with replacements in go.mod, such as
# Kubernetes. So a local module requires exactly this version, and replaces the same modules by their released versions.
build() { # output module version package [linker flags]
  [ -x "$folder/bin/$1" ] && return
  echo "kube: building $1 $3" >&2
  local module_folder=$folder/modules/${2//\//_} upstream_go_mod
  upstream_go_mod=$(module_field "$2" "$3" GoMod)
  mkdir -p "$module_folder"
  {
    echo "module busbw.test/kube"
    grep '^go ' "$upstream_go_mod"
    echo "require $2 $3"
    sed -n "s#^[[:space:]]*\(k8s.io/[a-z0-9.-]*\) => \./staging.*#replace \1 => \1 v0.${kubernetes#v1.}#p" "$upstream_go_mod"
  } >"$module_folder/go.mod"
  (cd "$module_folder" && go build -trimpath -ldflags "-s -w ${5:-}" -o "$folder/bin/$1.new" "$4")
  mv "$folder/bin/$1.new" "$folder/bin/$1"
}

minor=${kubernetes#v1.}
version_flags="-X k8s.io/component-base/version.gitVersion=$kubernetes -X k8s.io/component-base/version.gitMajor=1"
version_flags+=" -X k8s.io/component-base/version.gitMinor=${minor%%.*}"
for program in kube-apiserver kubectl kube-controller-manager kube-scheduler; do
  build $program k8s.io/kubernetes $kubernetes k8s.io/kubernetes/cmd/$program "$version_flags"
done
build etcd go.etcd.io/etcd/server/v3 $etcd go.etcd.io/etcd/server/v3
build kwok sigs.k8s.io/kwok $kwok sigs.k8s.io/kwok/cmd/kwok
build mpi-operator github.com/kubeflow/mpi-operator $mpi_operator github.com/kubeflow/mpi-operator/cmd/mpi-operator
build jobset sigs.k8s.io/jobset $jobset sigs.k8s.io/jobset

# Custom resource definitions of the operators, JobSet's webhooks, and kwok's life cycle of nodes and pods.
share=$folder/share
if [ ! -e "$share/complete" ]; then
  operator_files=$(module_field github.com/kubeflow/mpi-operator $mpi_operator Dir)
  jobset_files=$(module_field sigs.k8s.io/jobset $jobset Dir)
  stages=$(module_field sigs.k8s.io/kwok $kwok Dir)/kustomize/stage
  install -m 644 "$operator_files/manifests/base/kubeflow.org_mpijobs.yaml" "$share/mpijob-crd.yaml"
  install -m 644 "$jobset_files/config/components/crd/bases/"*.yaml "$share/"
  install -m 644 "$jobset_files/config/components/webhook/manifests.yaml" "$share/jobset-webhooks.yaml"
  for stage in node/fast/node-initialize node/heartbeat-with-lease/node-heartbeat-with-lease pod/fast/pod-ready \
    pod/fast/pod-complete pod/fast/pod-delete; do
    cat "$stages/$stage.yaml"
    echo '---'
  done >"$share/kwok-stages.yaml"
  touch "$share/complete"
fi
echo "$folder"
