-- KEYS: seats of a key, by the time at which they are free again. ARGV: seat, most (0: however many), milliseconds; none:
-- the seat is given up. 1: it is taken; 0: there is none.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local life = tonumber(ARGV[3])
if life == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return 1
end
local most = tonumber(ARGV[2])
if most > 0 and not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= most then return 0 end
redis.call('ZADD', KEYS[1], now + life, ARGV[1])
-- As long as the last of its seats may last.
redis.call('PEXPIRE', KEYS[1], math.max(life, redis.call('PTTL', KEYS[1])))
return 1
