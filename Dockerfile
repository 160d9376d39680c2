# One image for all programs; doc/kubernetes.md describes it.
#   docker run -p 9400:9400 IMAGE                      the service, with the configuration below
#   docker run IMAGE fakedev-exporter -count 2 ...     any other program, by its name
#   docker run IMAGE -k ...                            dcgm-exporter, by its flags
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
COPY . /source
RUN python3 -m venv /opt/fakedev \
 && /opt/fakedev/bin/pip install --no-cache-dir --only-binary :all: "/source[fast,kubernetes,node,tls]" \
 && XDG_CACHE_HOME=/opt/fakedev/share /opt/fakedev/bin/fakedev nvml build \
 && /opt/fakedev/bin/pip uninstall --yes setuptools pip \
 && find /opt/fakedev/lib -depth -type d \( -name test -o -name tests \) -exec rm -r {} + \
 && cp -r /source/etc/image /image && cd /image && mkdir -p usr/bin usr/local/bin usr/local/dcgm \
 && for name in exporter workload; do ln -s /opt/fakedev/bin/fakedev-$name fakedev-$name; done \
 && for name in frontend backend client; do ln -s /opt/fakedev/bin/fakedev-$name tester-$name; done \
 && ln -s /opt/fakedev/share/fakedev/nvidia-smi-*/dcgmi /opt/fakedev/share/fakedev/nvidia-smi-*/nvidia-smi usr/local/bin/ \
 && for name in usr/bin/dcgm-exporter usr/local/dcgm/dcgm-exporter-entrypoint.sh usr/local/bin/docker-entrypoint.sh; \
    do ln -s /opt/fakedev/bin/fakedev-dcgm-exporter $name; done

FROM python:3.13-slim AS image
# The health checks and tests of dcgm-fake-gpu-exporter run curl in the container.
RUN apt-get update && apt-get install --yes --no-install-recommends curl && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && useradd --uid 9400 --gid 0 --no-create-home fakedev \
 && install -d -m 1777 /run/fakedev /run/dcgm
COPY --from=build /opt/fakedev /opt/fakedev
COPY --from=build /image /
COPY etc/container.yaml /etc/fakedev/fakedev.yaml
ENV PATH=/opt/fakedev/bin:$PATH RUNTIME_DIRECTORY=/run/fakedev PYTHONUNBUFFERED=1
WORKDIR /
USER 9400:0
EXPOSE 9400
# Programs with other addresses are healthy while they run.
HEALTHCHECK CMD grep -Eaq 'serve|twistd|dcgm|entrypoint|container' /proc/1/cmdline || exit 0; \
  curl -sS -m 5 -o /dev/null "http://localhost:${EXPORTER_PORT:-9400}/health"
ENTRYPOINT ["/opt/fakedev/bin/python", "-m", "fakedev.commands.dropins.container"]

# The same with the user and the variables of another image, for those who start that one without variables, or mount folders
# of root: docker build --target dcgm-fake-gpu-exporter .
FROM image AS dcgm-fake-gpu-exporter
USER 0:0
ENV NUM_FAKE_GPUS=4 METRIC_PROFILE=static METRIC_UPDATE_INTERVAL=30 GPU_START_INDEX=1 EXPORTER_PORT=9400 ENABLE_UDS=false \
    UDS_SOCKET_PATH=/var/run/dcgm/metrics.sock

FROM image
