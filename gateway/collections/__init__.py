"""Collections of texts over HTTP, and the search in them: /v1/collections and /v1/search."""
