# The worker, which splits, searches and builds; the tracker too, which is a part of TVM.
#   docker build --file deploy/docker/worker.Dockerfile --tag tunebook-worker .
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
 && /opt/tunebook/bin/pip install --no-cache-dir "$(echo /wheels/*.whl)[tune,postgresql,redis]"

FROM ${PYTHON}
RUN groupadd --gid 10001 tunebook \
 && useradd --uid 10001 --gid 10001 --create-home --home-dir /var/lib/tunebook --shell /usr/sbin/nologin tunebook
COPY --from=environment /opt/tunebook /opt/tunebook
COPY --chmod=755 deploy/docker/worker-is-alive /usr/local/bin/
ENV PATH=/opt/tunebook/bin:$PATH \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /var/lib/tunebook
HEALTHCHECK --interval=60s --timeout=30s --start-period=90s --retries=3 CMD ["worker-is-alive"]
ENTRYPOINT ["tunebook"]
CMD ["worker"]
