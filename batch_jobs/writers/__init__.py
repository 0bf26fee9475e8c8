"""A transcript as files: text, subtitles, a table, and the document that holds everything."""
