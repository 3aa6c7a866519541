# A board, for 64-bit Arm: the agent, and the board server that it keeps at the tracker. It holds no
# tuner and no compiler.
#   docker build --platform linux/arm64 --file deploy/docker/board.Dockerfile --tag tunebook-board .
# Run it with the board's own network, since the tracker hands its address on, and its token in
# board.env, a file with TUNEBOOK_TOKEN=...:
#   docker run --init --network host --env-file board.env tunebook-board \
#     board --class rpi4b --coordinator https://tunebook.example --tracker 10.84.0.1:9190 --listen wg0
# The unit deploy/systemd/tunebook-board.service keeps kernels further from the board than this does.
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
# Whether the server is at its tracker the agent sees to, which starts it again.
HEALTHCHECK --interval=60s --timeout=10s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import psutil; raise SystemExit(not any((one.info['cmdline'] or [])[1:3] == ['-m', 'tunebook.workers.boards.board_server'] for one in psutil.process_iter(['cmdline'])))"]
ENTRYPOINT ["tunebook"]
CMD ["board", "--help"]
