#!/bin/sh
# Starts the stack: fakedev with etc/stack/fakedev.yaml and the backends of its queue, a Prometheus that scrapes it and has
# our alert rules, and Grafana with our dashboards if grafana-server is installed. Stops all when it is stopped.
# Passes its arguments to `fakedev serve`; TARGET (127.0.0.1:9400) is its address then. PROMETHEUS (127.0.0.1:9090) and
# GRAFANA (127.0.0.1:3000) are the others, INTERVAL (5s) is the time between two scrapes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
etc=$(dirname "$here")
bin=${FAKEDEV_BIN:-$etc/../.venv/bin}
[ -x "$bin/fakedev" ] || bin=$(dirname "$(command -v fakedev)")
prometheus=${PROMETHEUS:-127.0.0.1:9090}
grafana=${GRAFANA:-127.0.0.1:3000}
target=${TARGET:-127.0.0.1:9400}
command -v prometheus > /dev/null || { echo "make stack needs Prometheus: apt-get install prometheus, or see etc/stack/compose.yaml" >&2; exit 1; }

# answers ADDRESS [PATH]: something listens there; with a path, HTTP gets it.
answers() {
    python3 - "$@" << 'END' 2> /dev/null
import socket, sys, urllib.request
address, *path = sys.argv[1:]
host, _, port = address.rpartition(":")
socket.create_connection((host.strip("[]"), int(port)), 2).close()
if path:
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://{address}{path[0]}", timeout=5)
END
}

# until_it_answers ADDRESS PATH PID: waits; 1 if the process ends before.
until_it_answers() {
    until answers "$1" "$2"; do
        kill -0 "$3" 2> /dev/null || return 1
        sleep 0.3
    done
}

for each in "TARGET=$target" "PROMETHEUS=$prometheus" "GRAFANA=$grafana"; do
    if answers "${each#*=}"; then
        echo "${each#*=} is in use by another program: stop that, or choose another address with ${each%%=*}=HOST:PORT" >&2
        exit 1
    fi
done
folder=$(mktemp -d)
children=

end() {
    trap - INT TERM EXIT
    # shellcheck disable=SC2086
    kill $children 2> /dev/null || true
    wait
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 0' INT TERM

# Its log at the level info has a line for each job of the queue.
"$etc/loop.sh" --config "$here/fakedev.yaml" --set log.level=warn "$@" &
fleet=$!
children=$fleet
until_it_answers "$target" /readyz "$fleet" || exit 1

"$bin/fakedev" prometheus --config "$here/fakedev.yaml" --interval "${INTERVAL:-5s}" --target "$target" \
    --rules "$etc/prometheus/gpu.rules.yml" --rules "$etc/prometheus/fakedev.rules.yml" > "$folder/prometheus.yml"
prometheus --config.file="$folder/prometheus.yml" --storage.tsdb.path="$folder/data" --web.listen-address="$prometheus" --log.level=warn &
children="$children $!"
until_it_answers "$prometheus" /-/ready "$!" || { echo "Prometheus has ended: see its message above" >&2; exit 1; }
# Debian's package has only the older pages of Prometheus, below /classic.
pages=http://$prometheus
answers "$prometheus" /targets || pages=$pages/classic

if command -v grafana-server > /dev/null; then
    mkdir -p "$folder/provisioning/datasources" "$folder/provisioning/dashboards" "$folder/dashboards"
    for each in "$etc"/grafana/*.json; do
        sed "s#http://127.0.0.1:9400#http://$target#" "$each" > "$folder/dashboards/${each##*/}"
    done
    sed "s#http://prometheus:9090#http://$prometheus#" "$etc/grafana/provisioning/datasources/prometheus.yaml" > "$folder/provisioning/datasources/prometheus.yaml"
    sed "s#/etc/grafana/dashboards#$folder/dashboards#" "$etc/grafana/provisioning/dashboards/provider.yaml" > "$folder/provisioning/dashboards/provider.yaml"
    GF_PATHS_PROVISIONING="$folder/provisioning" GF_PATHS_DATA="$folder/grafana" GF_SERVER_HTTP_ADDR="${grafana%:*}" GF_SERVER_HTTP_PORT="${grafana##*:}" \
        GF_AUTH_ANONYMOUS_ENABLED=true GF_LOG_LEVEL=warn GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH="$folder/dashboards/fleet.json" \
        grafana-server --homepath "${GRAFANA_HOME:-/usr/share/grafana}" &
    children="$children $!"
    until_it_answers "$grafana" /api/health "$!" || { echo "Grafana has ended: see its message above" >&2; exit 1; }
    graphs="http://$grafana/d/fakedev-fleet"
else
    echo "Grafana is not installed: import the dashboards etc/grafana/*.json into yours, with http://$prometheus as its source"
    graphs=$pages/graph
    number=0 separator="?"
    for each in "avg+by+(Hostname)+(DCGM_FI_DEV_GPU_UTIL)" DCGM_FI_DEV_GPU_TEMP "sum+by+(name)+(hpa_queue_waiting)" \
        "ALERTS%7Balertstate%3D%22firing%22%7D" fakedev_fault_devices; do
        graphs="$graphs${separator}g$number.expr=$each&g$number.tab=0&g$number.range_input=15m"
        number=$((number + 1)) separator="&"
    done
fi

echo "fakedev:  http://$target/"
echo "graphs:   $graphs"
echo "alerts:   $pages/alerts"
echo "targets:  $pages/targets"
echo "^C stops all"
wait "$fleet"
