# The service and the worker. On a machine with GPUs build with the CUDA build of torch, which PyPI has:
#     docker build --build-arg TORCH_INDEX=https://pypi.org/simple .
FROM python:3.12-slim

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY workers workers
COPY speech speech
COPY batch_jobs batch_jobs
COPY speechlane speechlane
COPY gateway gateway
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" -c constraints.txt '.[models,s3]'

# New volumes take their owner from these directories.
RUN useradd --create-home speechlane && mkdir /cache /spool && chown speechlane: /cache /spool
USER speechlane
ENV SPEECHLANE_CACHE=/cache

ENTRYPOINT ["speechlane"]
CMD ["serve"]
