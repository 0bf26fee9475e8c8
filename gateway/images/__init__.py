"""POST /v1/images/generations in OpenAI's form: a text in, pictures out."""
