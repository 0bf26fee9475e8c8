"""The queue of the batch lane: tasks in Redis Streams, each run to one result, whatever dies on the way."""
