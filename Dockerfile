# A service for one index in the volume /data. Built and run by .ci/container, also where there is no Docker.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
COPY --from=build /wheels /wheels
COPY deploy/entrypoint /usr/local/bin/mihash-entrypoint
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[service,arrow]" \
    && rm -r /wheels \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin mihash \
    && mkdir /data \
    && chown mihash /data
ENV NUMBA_CACHE_DIR=/tmp/numba MIHASH_FOLDER=/data/index MIHASH_BITS=64 PYTHONUNBUFFERED=1
USER mihash
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/ready', timeout=4)"]
ENTRYPOINT ["mihash-entrypoint"]
CMD ["--host", "0.0.0.0", "--port", "8000"]
