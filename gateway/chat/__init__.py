"""POST /v1/chat/completions in OpenAI's form: text, pictures and clips in, text out."""
