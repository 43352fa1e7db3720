#!/bin/sh
# Pin one set of control-plane binaries:  pin.sh FOLDER KUBERNETES ETCD     e.g.  pin.sh current v1.37.2 v3.7.3
#
# k8s.io/kubernetes requires its staging modules at v0.0.0 and replaces them by folders of its own tree; outside that
# tree each has to be replaced by its published version. The list differs from minor to minor, so it is read from
# the release's own go.mod. What this writes (go.mod, go.sum) is checked in.
set -eu
folder=$1 kubernetes=$2 etcd=$3
cd "$(dirname "$0")/$folder"
staging="v0.${kubernetes#v1.}"
upstream=$(go mod download -json "k8s.io/kubernetes@$kubernetes" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
language=$(sed -n 's/^go //p' "$upstream")
{
  printf 'module spotrun.dev/devcluster/%s\n\ngo %s\n\n' "$folder" "$language"
  sed -n 's/^godebug default=/godebug default=/p' "$upstream"
  printf '\nrequire (\n\tgo.etcd.io/etcd/server/v3 %s\n\tk8s.io/kubernetes %s\n)\n\nreplace (\n' "$etcd" "$kubernetes"
  sed -n "s,^.*\(k8s.io/[a-z-]*\) => ./staging/.*,\t\1 => \1 $staging,p" "$upstream"
  printf ')\n'
} > go.mod
go mod tidy
