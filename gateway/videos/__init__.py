"""/v1/videos in OpenAI's form: clips that are made in the background and fetched when they are done."""
