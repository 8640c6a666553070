# syntax=docker/dockerfile:1
# The image of a broker: compiled, without a compiler in it, and not as root. docs/install.md is about its use.
# Images are pinned by digest; .github/dependabot.yml renews them.
ARG PYTHON=3.13-slim-bookworm@sha256:01f42367a0a94ad4bc17111776fd66e3500c1d87c15bbd6055b7371d39c124fb

FROM python:${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# The compiler is not part of the image, so its version is Debian's.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY requirements/build.lock requirements/runtime.lock requirements/
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes --requirement requirements/build.lock \
    && python -m venv --without-pip /opt/penstock \
    && /opt/build/bin/pip --python /opt/penstock/bin/python install --require-hashes --only-binary :all: \
        --requirement requirements/runtime.lock
COPY pyproject.toml setup.py README.md LICENSE ./
COPY src src
# The time and id of the last change, which `penstock --version` shows: the history is not sent to the engine.
ARG CHANGE=
ENV PENSTOCK_RELEASE=1 PENSTOCK_CHANGE=$CHANGE
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/build/bin/pip --python /opt/penstock/bin/python install --no-deps --no-index /wheels/*.whl \
    && /opt/penstock/bin/python -c "import penstock, sys; sys.exit(not penstock.compiled())"

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="Penstock" \
      org.opencontainers.image.description="A message broker that cannot be overrun" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --system --gid 10001 penstock \
    && useradd --system --uid 10001 --gid penstock --home-dir /var/lib/penstock --shell /usr/sbin/nologin penstock \
    && install --directory --owner penstock --group penstock --mode 0700 /var/lib/penstock
COPY --from=build /opt/penstock /opt/penstock
COPY --chown=root:penstock --chmod=0640 deploy/docker/penstock.toml deploy/docker/profiles.toml /etc/penstock/
ENV PATH=/opt/penstock/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ENV PENSTOCK_PROFILES=/etc/penstock/profiles.toml
USER 10001:10001
VOLUME /var/lib/penstock
EXPOSE 5672 15672
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:15692/ready', timeout=9)"]
ENTRYPOINT ["penstock"]
CMD ["serve", "--config", "/etc/penstock/penstock.toml"]
