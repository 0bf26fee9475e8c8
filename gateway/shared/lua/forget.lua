-- KEYS: session, index, sizes. ARGV: fence. The session has ended, or is not kept any more; 0: another gateway has it.
if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
local size = tonumber(redis.call('HGET', KEYS[3], KEYS[1]) or 0)
redis.call('HDEL', KEYS[3], KEYS[1])
redis.call('ZREM', KEYS[2], KEYS[1])
redis.call('HINCRBY', KEYS[3], 'total', -size)
return 1
