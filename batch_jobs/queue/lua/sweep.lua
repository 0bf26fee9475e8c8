-- ARGV: now, time before which a job has to have ended, most jobs. The ids of those that are gone.
local old = redis.call('ZRANGEBYSCORE', prefix .. 'ended', '-inf', '(' .. ARGV[2], 'LIMIT', 0, ARGV[3])
for _, job in ipairs(old) do forget(job) end
return old
