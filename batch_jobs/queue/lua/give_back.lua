-- ARGV: now, priority, message, consumer. The entry keeps its place, looks long abandoned and loses its last delivery.
local deliveries = mine(ARGV[2], ARGV[3], ARGV[4])
if not deliveries then return 0 end
redis.call('XCLAIM', stream_key(ARGV[2]), GROUP, 'given-back', 0, ARGV[3],
  'IDLE', 86400000, 'RETRYCOUNT', deliveries - 1, 'JUSTID')
ring()
return 1
