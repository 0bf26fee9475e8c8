"""Documents over HTTP: what a PDF or a picture says and where, and answers to questions about it."""
