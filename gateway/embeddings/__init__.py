"""Vectors over HTTP: POST /v1/embeddings in OpenAI's form, POST /v1/rerank in Cohere's and Jina's."""
