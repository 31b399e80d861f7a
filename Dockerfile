# The dashboard in a container:
#   make docker
#   docker run --rm -p 127.0.0.1:8000:8000 -e HEADROOM_TOKEN=$(openssl rand -hex 24) -v headroom:/data headroom
#
# BASE builds: it needs make and Python 3.11 or newer. RUNTIME runs: the same Python at the same path.
# The default computes on the CPU. For NVIDIA GPUs: make docker CUDA_BASE=IMAGE, where IMAGE has CUDA, Python and make
# and serves as both; then docker run --gpus all ... EXTRAS: what pyproject.toml offers beside the necessary.
ARG BASE=python:3.13-bookworm
ARG RUNTIME=python:3.13-slim-bookworm

FROM ${BASE} AS build
ARG TORCH=torch==2.13.0+cpu
ARG EXTRAS=postgres
ARG PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
# An empty folder, to hand the data volume to the user below.
WORKDIR /data
WORKDIR /headroom
COPY Makefile pyproject.toml requirements.txt README.md LICENSE ./
COPY app app
COPY estimator estimator
COPY runners runners
RUN make setup

FROM ${RUNTIME}
LABEL org.opencontainers.image.title="Headroom" org.opencontainers.image.licenses="Apache-2.0"
WORKDIR /headroom
COPY --from=build /headroom /headroom
COPY static static
COPY --from=build --chown=10001:10001 /data /data
ENV PATH=/headroom/.venv/bin:$PATH \
    HOME=/data \
    PYTHONDONTWRITEBYTECODE=1 \
    HEADROOM_HOST=0.0.0.0 \
    HEADROOM_PORT=8000 \
    HEADROOM_DATA=/data
USER 10001:10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/api/health', timeout=4)"]
CMD ["headroom", "serve"]
