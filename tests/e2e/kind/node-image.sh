#!/bin/bash
# Make a kind node image without Docker and without a registry:  node-image.sh PROGRAMS KIND IMAGE
#   PROGRAMS  folder with static kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, kubelet, kubectl,
#             kubeadm, etcd, coredns and local-path-provisioner
#   KIND      kind as a Go module with its version, for the files that its own image is made of
#   IMAGE     the name for `kind create cluster --image`
# Needs root, debootstrap, go, jq, podman and a Debian mirror. Follows images/base and pkg/build/nodeimage of kind.
set -euo pipefail
bin=$(realpath "$1") kind=$2 image=$3
work=$(mktemp -d) && trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
version=$("$bin/kubelet" --version | cut -d' ' -f2)

debootstrap --variant=minbase --include=systemd,conntrack,iptables,nftables,iproute2,ethtool,kmod,procps,jq,curl,ca-certificates,e2fsprogs,mount,containerd,runc,containernetworking-plugins,busybox-static \
  bookworm "$root" >/dev/null
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}/*

# --- what images/base/Dockerfile does
src=$(cd / && go mod download -json "$kind" | jq -r .Dir)
cp -r --no-preserve=mode,ownership "$src"/images/base/files/. "$root/"
chmod 755 "$root"/kind/bin/* "$root/usr/local/bin/entrypoint"
(cd "$root" && rm -f etc/systemd/system/*.wants/* lib/systemd/system/{multi-user,local-fs,basic}.target.wants/* \
  lib/systemd/system/sockets.target.wants/*{udev,initctl}* lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service \
  usr/lib/sysctl.d/*)  # the last: these would set sysctls of the whole machine
echo ReadKMsg=no >> "$root/etc/systemd/journald.conf"
ln -sf /usr/lib/systemd/systemd "$root/sbin/init"
systemctl --root="$root" enable kubelet containerd undo-mount-hacks
systemctl --root="$root" mask systemd-binfmt
mkdir -p "$root"/etc/kubernetes/manifests "$root"/opt/cni "$root"/kind/manifests "$root"/etc/cni/net.d
ln -s /usr/lib/cni "$root/opt/cni/bin"
ln -s /usr/bin/containerd "$root/usr/local/bin/containerd"
chroot "$root" ctr oci spec | jq 'del(.process.rlimits) | .hooks.createContainer += [{path: "/kind/bin/mount-product-files.sh"}]' \
  > "$root/etc/containerd/cri-base.json"
# Differences: no CAP_SYS_RESOURCE on the host; cgroup v1; on a tie use nft, as our kube-proxy image does
sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' "$root/etc/containerd/config.toml"
echo 'KUBELET_EXTRA_ARGS=--runtime-cgroups=/system.slice/containerd.service --fail-cgroupv1=false' > "$root/etc/default/kubelet"
sed -i 's/"${num_legacy_lines}" -ge/"${num_legacy_lines}" -gt/' "$root/usr/local/bin/entrypoint"

# --- what pkg/build/nodeimage does
install -m755 "$bin"/{kubelet,kubeadm,kubectl} "$root/usr/bin/"
echo -n "$version" > "$root/kind/version"

# Pod network instead of the kindnetd image: node a.b.c.N owns 10.244.N.0/24, routes are fixed.
# The default route is on-link: Service addresses need some route before DNAT, and nothing is forwarded off the machine.
cat > "$root/kind/bin/static-cni.sh" <<'CNI'
#!/bin/bash
set -eu
ip=$(ip -4 -o addr show dev eth0 | sed -E 's/.* inet ([0-9.]+).*/\1/;q')
net=${ip%.*} n=${ip##*.}
cat > /etc/cni/net.d/10-static.conflist <<END
{"cniVersion": "0.3.1", "name": "static", "plugins": [
 {"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam",
  "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": "10.244.$n.0/24"}]]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
END
for i in $(seq 1 254); do [ "$i" = "$n" ] || echo "route replace 10.244.$i.0/24 via $net.$i"; done | ip -batch -
ip route replace default dev eth0
conf=$(grep -vE "^nameserver" /etc/resolv.conf; echo "nameserver $net.1")  # pods cannot reach the other servers
echo "$conf" > /etc/resolv.conf
rule=(POSTROUTING -s 10.244.0.0/16 ! -d 10.244.0.0/16 -o eth0 -j MASQUERADE)
iptables -t nat -C "${rule[@]}" 2>/dev/null || iptables -t nat -A "${rule[@]}"
CNI
chmod 755 "$root/kind/bin/static-cni.sh"
mkdir -p "$root/etc/systemd/system/containerd.service.d"
printf '[Service]\nExecStartPre=/kind/bin/static-cni.sh\n' > "$root/etc/systemd/system/containerd.service.d/20-cni.conf"
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: static-cni, namespace: kube-system}\n' > "$root/kind/manifests/default-cni.yaml"

const() { grep -oP "(const|\t)\s*$1 = \"\K[^\"]+" "$src"/pkg/build/nodeimage/const_*.go -h; }
provisioner=$(const storageProvisionerImage) helper=$(const storageHelperImage)
sed -n '/^const defaultStorageManifest = /,/^`/p' "$src/pkg/build/nodeimage/const_storage.go" | sed '1d;$d' |
  sed "s|\` + storageProvisionerImage + \`|$provisioner|; s|\` + storageHelperImage + \`|$helper|" > "$root/kind/manifests/default-storage.yaml"

# archive IMAGE ENTRYPOINT FILE: pack the folder "layer" as an image, and empty it
archive() {
  (cd "$work" && tar -C "$work/layer" --owner=0 --group=0 --numeric-owner -cf layer.tar . && diff=$(sha256sum < layer.tar | cut -d' ' -f1)
   gzip -1f layer.tar
   echo "{\"architecture\":\"$(go env GOARCH)\",\"os\":\"linux\",\"config\":{\"Env\":[\"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"],\"Entrypoint\":[\"$2\"]},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:$diff\"]}}" > config.json
   echo "[{\"Config\":\"config.json\",\"RepoTags\":[\"$1\"],\"Layers\":[\"layer.tar.gz\"]}]" > manifest.json
   tar -cf "$root/kind/$3.tar" manifest.json config.json layer.tar.gz)
  rm -rf "$work/layer"; mkdir -p "$work/layer/usr/local/bin" "$work/layer/tmp"
}
mkdir -p "$work/layer/usr/local/bin"
images=$("$bin/kubeadm" config images list --kubernetes-version "$version")
for i in $images; do
  name=$(basename "${i%:*}")
  case $name in
    pause) i=$(sed -n 's/.*sandbox_image = "\(.*\)"/\1/p' "$root/etc/containerd/config.toml")
      printf 'package main\n\nimport "syscall"\n\nfunc main() {\n\tfor {\n\t\tsyscall.Pause()\n\t}\n}\n' > "$work/pause.go"
      CGO_ENABLED=0 go build -ldflags '-s -w' -o "$work/layer/usr/local/bin/pause" "$work/pause.go" ;;
    kube-proxy) cp "$bin/kube-proxy" "$work/layer/usr/local/bin/"  # with iptables and nft, their plug-ins and libraries
      (cd "$root" && libs=$(chroot . sh -c 'ldd /usr/sbin/xtables-nft-multi /usr/sbin/nft /usr/lib/*/xtables/*.so' | grep -oP '\s/\Klib\S*' | sort -u) &&
       cp -rL --parents usr/sbin/{xtables-nft-multi,nft} usr/lib/*/xtables $libs "$work/layer")
      for t in {iptables,ip6tables}{,-save,-restore}; do ln -s xtables-nft-multi "$work/layer/usr/sbin/$t"; done ;;
    *) cp "$bin/$name" "$work/layer/usr/local/bin/" ;;
  esac
  archive "$i" "/usr/local/bin/$name" "$name"
done
cp "$bin/local-path-provisioner" "$work/layer/usr/local/bin/"
archive "$provisioner" /usr/local/bin/local-path-provisioner local-path-provisioner
cp "$root/bin/busybox" "$work/layer/usr/local/bin/" && for t in sh mkdir rm; do ln -s busybox "$work/layer/usr/local/bin/$t"; done
mkdir "$work/layer/bin" && ln -s /usr/local/bin/busybox "$work/layer/bin/sh"
archive "$helper" /bin/sh local-path-helper

unshare --mount --pid --fork --kill-child --root="$root" --mount-proc bash -ec '
  containerd >/kind/containerd.log 2>&1 & until ctr version >/dev/null 2>&1; do sleep 0.1; done
  for f in /kind/*.tar; do ctr -n k8s.io images import --label=io.cri-containerd.pinned=pinned --all-platforms --no-unpack --digests "$f"; done
  kill %1; wait %1 || true'
rm -rf "$root"/kind/*.tar "$root/kind/containerd.log" "$root"/run/*

tar -C "$root" --numeric-owner --one-file-system -c . | podman import --quiet --change 'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]' \
  --change 'ENV container=podman' --change 'STOPSIGNAL SIGRTMIN+3' - "$image"
