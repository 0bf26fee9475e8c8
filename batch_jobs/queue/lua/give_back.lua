-- ARGV: now, priority, message, consumer, job, task, run, deliveries. The entry keeps its place, looks long abandoned
-- and loses its last delivery.
if not mine(ARGV[2], ARGV[3], ARGV[4], ARGV[8]) then return 0 end
redis.call('XCLAIM', stream_key(ARGV[2]), GROUP, 'given-back', 0, ARGV[3],
  'IDLE', 86400000, 'RETRYCOUNT', ARGV[8] - 1, 'JUSTID')
ring()
return 1
