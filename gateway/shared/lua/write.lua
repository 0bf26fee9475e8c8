-- KEYS: session, index (sessions by the time of their expiry), sizes (bytes by session, and "total").
-- ARGV: fence, milliseconds to live, bytes, most bytes of all, 1: as a whole, count of removed fields, these, then names
-- and values.
-- 1: written. -1: another gateway has the session. -2: it is not there; write it as a whole. -3: there is no room.
local session, index, sizes = KEYS[1], KEYS[2], KEYS[3]
local fence = redis.call('HGET', session, 'fence')
if fence and fence ~= ARGV[1] then return -1 end
if not fence and ARGV[5] == '0' then return -2 end

local function forget(which)
  local size = tonumber(redis.call('HGET', sizes, which) or 0)
  redis.call('HDEL', sizes, which)
  redis.call('ZREM', index, which)
  return redis.call('HINCRBY', sizes, 'total', -size)
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, old in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', '(' .. now, 'LIMIT', 0, 20)) do forget(old) end

local before = tonumber(redis.call('HGET', sizes, session) or 0)
local size, total = tonumber(ARGV[3]), tonumber(redis.call('HGET', sizes, 'total') or 0)
if size > before and total - before + size > tonumber(ARGV[4]) then
  redis.call('DEL', session)
  forget(session)
  return -3
end
if ARGV[5] == '1' then redis.call('DEL', session) end
local first = 7 + tonumber(ARGV[6])
for n = 7, first - 1 do redis.call('HDEL', session, ARGV[n]) end
for n = first, #ARGV - 1, 2 do redis.call('HSET', session, ARGV[n], ARGV[n + 1]) end
redis.call('HSET', session, 'fence', ARGV[1])
redis.call('PEXPIRE', session, ARGV[2])
redis.call('ZADD', index, now + tonumber(ARGV[2]), session)
redis.call('HSET', sizes, session, size)
redis.call('HINCRBY', sizes, 'total', size - before)
return 1
