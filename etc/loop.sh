#!/bin/sh
# Starts fakedev with etc/loop.yaml and one backend for each of its eight GPUs. Stops all of them when it is stopped.
# Passes its arguments to `fakedev serve`, for example --set 'web=["127.0.0.1:9500"]', or --config with another
# configuration that has the node dgx-0 and the queue gpu.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
bin=${FAKEDEV_BIN:-$here/../.venv/bin}
[ -x "$bin/fakedev" ] || bin=$(dirname "$(command -v fakedev)")
folder=$(mktemp -d)
export RUNTIME_DIRECTORY="$folder"
children=

end() {
    trap - INT TERM EXIT
    # shellcheck disable=SC2086
    kill $children 2>/dev/null || true
    wait
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 0' INT TERM

"$bin/fakedev" serve --config "$here/loop.yaml" --ready-file "$folder/ready.json" "$@" &
children=$!
until [ -s "$folder/ready.json" ]; do
    kill -0 "$children" || exit 1
    sleep 0.2
done
for card in 0 1 2 3 4 5 6 7; do
    NODE=dgx-0 POD="worker-$card" "$bin/fakedev-backend" -name gpu -backoff 0.5 -backoff-max 0.5 -node-env NODE -pod-env POD -null-in -null-out \
        -faddr "${FAKEDEV_BACKENDS:-127.0.0.1:9999}" "$bin/fakedev-workload" -socket "$folder/workload.sock" -name "job-$card" -pod "worker-$card" -namespace serving \
        -kind tensor -seconds-of work -devnames "dgx-0/$card" 2> /dev/null &
    children="$children $!"
done
wait
