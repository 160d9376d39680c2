# An image that can run each of the programs:
#   docker run -p 9400:9400 IMAGE                      the service, with the configuration below
#   docker run IMAGE fakedev-exporter -count 2 ...     any other program, by its name
FROM python:3.13-slim AS build
COPY . /source
RUN python -m venv /opt/fakedev && /opt/fakedev/bin/pip install --no-cache-dir "/source[fast,kubernetes,node,tls]"
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev \
 && XDG_CACHE_HOME=/opt/fakedev/share /opt/fakedev/bin/fakedev nvml build

FROM python:3.13-slim
RUN useradd --system --uid 9400 --user-group --no-create-home fakedev \
 && install -d -m 770 -o fakedev -g fakedev /run/fakedev
COPY --from=build /opt/fakedev /opt/fakedev
COPY etc/container.yaml /etc/fakedev/fakedev.yaml
ENV PATH=/opt/fakedev/bin:$PATH RUNTIME_DIRECTORY=/run/fakedev PYTHONUNBUFFERED=1
USER 9400:9400
EXPOSE 9400
HEALTHCHECK CMD ["fakedev", "status", "--url", "http://127.0.0.1:9400"]
CMD ["fakedev", "serve", "--config", "/etc/fakedev/fakedev.yaml"]
