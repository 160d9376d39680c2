#!/bin/sh
# Prints nodes for KWOK that fakedev gives GPUs to: kwok-nodes.sh COUNT [POOL [PREFIX]] | kubectl apply -f -
# They are named PREFIX-0, PREFIX-1, ...; POOL is one of the configuration. KWOK (https://kwok.sigs.k8s.io) must run in the cluster.
set -eu

count=${1:-}
pool=${2:-dgx}
prefix=${3:-kwok-$pool}
case $count in
  '' | *[!0-9]*)
    echo "use: kwok-nodes.sh COUNT [POOL [PREFIX]] | kubectl apply -f -" >&2
    exit 2
    ;;
esac

number=0
while [ "$number" -lt "$count" ]; do
  [ "$number" -eq 0 ] || echo "---"
  cat << END
apiVersion: v1
kind: Node
metadata:
  name: $prefix-$number
  annotations: {kwok.x-k8s.io/node: fake}
  labels:
    # The label type keeps fakedev-node away, which cannot select by the annotation.
    type: kwok
    fakedev/pool: $pool
    kubernetes.io/hostname: $prefix-$number
    kubernetes.io/os: linux
    kubernetes.io/arch: amd64
spec:
  # Only pods that tolerate it run here: on a mixed cluster all others need real nodes.
  taints: [{key: kwok.x-k8s.io/node, value: fake, effect: NoSchedule}]
status:
  capacity: {cpu: "96", memory: 1Ti, pods: "110"}
  allocatable: {cpu: "96", memory: 1Ti, pods: "110"}
END
  number=$((number + 1))
done
