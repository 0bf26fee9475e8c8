# The service and the worker, models included. On a machine with GPUs build with the CUDA build of torch, which PyPI has:
#     docker build --build-arg TORCH_INDEX=https://pypi.org/simple .
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

# Without pip, which nobody needs there.
RUN python -m venv --without-pip /opt/speechlane
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY workers workers
COPY speech speech
COPY batch_jobs batch_jobs
COPY speechlane speechlane
COPY vision_text vision_text
COPY gateway gateway
COPY load load
# Compiled here, since the image's files cannot be written where it runs.
RUN pip --python /opt/speechlane/bin/python install --no-cache-dir --compile --extra-index-url "$TORCH_INDEX" \
        -c constraints.txt '.[models,s3]' \
    # Headers, tools and tests of packages: 180 MB of 1.6 GB. torch looks for that one tool when it is imported.
    && cd /opt/speechlane/lib/python*/site-packages \
    && rm -rf torch/include torch/share torch/test \
    && find torch/bin -type f ! -name torch_shm_manager -delete \
    && find numpy -type d -name tests -prune -exec rm -rf {} +

FROM python:${PYTHON}-slim

LABEL org.opencontainers.image.title="Speechlane" org.opencontainers.image.licenses="Apache-2.0"

# New volumes take their owner from these directories.
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin speechlane \
    && install --directory --owner=speechlane --group=speechlane --mode=0700 /cache /spool
COPY --from=build /opt/speechlane /opt/speechlane
COPY deploy/healthcheck.py /opt/speechlane/healthcheck.py
ENV PATH=/opt/speechlane/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    SPEECHLANE_CACHE=/cache
USER 10001:10001
WORKDIR /tmp
VOLUME ["/cache", "/spool"]
EXPOSE 8700

# Alive, not ready: models may take a while to load, and who drains shall not be killed for it.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python", "/opt/speechlane/healthcheck.py"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["speechlane"]
CMD ["serve"]
