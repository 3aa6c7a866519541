# The coordinator: serves schedules, jobs and the pages, upgrades the database and backs it up. It
# has no TVM.
#   docker build --file deploy/docker/coordinator.Dockerfile --tag tunebook-coordinator .
ARG PYTHON=python:3.11.14-slim-bookworm

FROM ${PYTHON} AS wheel
WORKDIR /source
COPY pyproject.toml README.md ./
COPY cache cache
COPY tuner tuner
COPY workers workers
COPY service service
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM ${PYTHON} AS environment
COPY --from=wheel /wheels /wheels
RUN python -m venv /opt/tunebook \
 && /opt/tunebook/bin/pip install --no-cache-dir "$(echo /wheels/*.whl)[serve,postgresql,redis]"

FROM ${PYTHON}
# pg_dump, pg_restore and psql, as new as the server in compose.yaml; which patch of it is the base
# image's to say.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends postgresql-client-15 \
 && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 10001 tunebook \
 && useradd --uid 10001 --gid 10001 --create-home --home-dir /var/lib/tunebook --shell /usr/sbin/nologin tunebook \
 && install --directory --owner=tunebook --group=tunebook /var/lib/tunebook/models \
      /var/lib/tunebook/.local /tokens/prometheus /tokens/worker /backups
COPY --from=environment /opt/tunebook /opt/tunebook
COPY --chmod=755 deploy/docker/make-token /usr/local/bin/
ENV PATH=/opt/tunebook/bin:$PATH \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /var/lib/tunebook
EXPOSE 8470
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8470/readyz', timeout=4)"]
ENTRYPOINT ["tunebook"]
CMD ["serve", "--workers", "0"]
