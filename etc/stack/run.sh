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

"$etc/loop.sh" --config "$here/fakedev.yaml" "$@" &
fleet=$!
children=$fleet
until "$bin/fakedev" status --url "http://$target" > /dev/null 2>&1; do
    kill -0 "$fleet" 2> /dev/null || exit 1
    sleep 0.3
done

"$bin/fakedev" prometheus --config "$here/fakedev.yaml" --interval "${INTERVAL:-5s}" --target "$target" \
    --rules "$etc/prometheus/gpu.rules.yml" --rules "$etc/prometheus/fakedev.rules.yml" > "$folder/prometheus.yml"
prometheus --config.file="$folder/prometheus.yml" --storage.tsdb.path="$folder/data" --web.listen-address="$prometheus" --log.level=warn &
children="$children $!"
echo "Prometheus: http://$prometheus/alerts"

if command -v grafana-server > /dev/null; then
    mkdir -p "$folder/provisioning/datasources" "$folder/provisioning/dashboards"
    sed "s#http://prometheus:9090#http://$prometheus#" "$etc/grafana/provisioning/datasources/prometheus.yaml" > "$folder/provisioning/datasources/prometheus.yaml"
    sed "s#/etc/grafana/dashboards#$etc/grafana#" "$etc/grafana/provisioning/dashboards/provider.yaml" > "$folder/provisioning/dashboards/provider.yaml"
    GF_PATHS_PROVISIONING="$folder/provisioning" GF_PATHS_DATA="$folder/grafana" GF_SERVER_HTTP_ADDR="${grafana%:*}" GF_SERVER_HTTP_PORT="${grafana##*:}" \
        GF_AUTH_ANONYMOUS_ENABLED=true GF_LOG_LEVEL=warn grafana-server --homepath "${GRAFANA_HOME:-/usr/share/grafana}" &
    children="$children $!"
    echo "Grafana: http://$grafana/dashboards"
else
    echo "Grafana is not installed: import the dashboards etc/grafana/*.json into yours, with http://$prometheus as its source"
fi

wait "$fleet"
