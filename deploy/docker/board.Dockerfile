# A board, for 64-bit Arm: the agent, and the board server that it keeps at the tracker. It holds no
# tuner and no compiler.
#   docker build --platform linux/arm64 --file deploy/docker/board.Dockerfile --tag tunebook-board .
# Run it with the board's own network, since the tracker hands its address on:
#   docker run --network host --env-file board.env tunebook-board \
#     board --class rpi4b --coordinator https://tunebook.example --tracker 10.84.0.1:9190
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
 && /opt/tunebook/bin/pip install --no-cache-dir "$(echo /wheels/*.whl)[board]"

FROM ${PYTHON}
RUN groupadd --gid 10002 board \
 && useradd --uid 10002 --gid 10002 --create-home --home-dir /var/lib/board --shell /usr/sbin/nologin board
COPY --from=environment /opt/tunebook /opt/tunebook
ENV PATH=/opt/tunebook/bin:$PATH \
    PYTHONUNBUFFERED=1
USER 10002:10002
WORKDIR /var/lib/board
# The agent ends when it can do nothing more; what the board server does is its own matter.
HEALTHCHECK --interval=60s --timeout=10s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import psutil; raise SystemExit(not psutil.Process(1).is_running())"]
ENTRYPOINT ["tunebook"]
CMD ["board", "--help"]
