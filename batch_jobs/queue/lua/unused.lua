-- ARGV: now, most. Takes out files whose time has come; those that nobody needs, as they were put in.
local free = {}
local again = redis.call('SCARD', prefix .. 'open') + redis.call('SCARD', prefix .. 'again')
for _, member in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'unused', '-inf', now, 'LIMIT', 0, ARGV[2])) do
  redis.call('ZREM', prefix .. 'unused', member)
  local kind, name = string.match(member, '^(%S+) (%S+)$')
  -- What was made of a recording another one may have too, which goes on or can be tried again.
  local needed = redis.call('EXISTS', prefix .. 'source:' .. name) == 1 or kind ~= 'source' and again > 0
  if not needed then free[#free + 1] = member end
end
return free
