-- ARGV: now, job, created, fields (JSON), task id, task text, next ("id kind payload"), most open jobs, most ended jobs.
-- 1: made (or made before, when an answer was lost); 0: too many open jobs.
local job = ARGV[2]
if redis.call('EXISTS', job_key(job)) == 1 then return 1 end
if redis.call('SCARD', prefix .. 'open') >= tonumber(ARGV[8]) then return 0 end
local fields = cjson.decode(ARGV[4])
set_fields(job, fields)
redis.call('HSET', job_key(job), '_run', '1', '_then', ARGV[7], '_next', ARGV[7])
redis.call('ZADD', prefix .. 'jobs', ARGV[3], job)
redis.call('SADD', prefix .. 'open', job)
index(job)
add_tasks(job, {{ARGV[5], ARGV[6]}})
local over = redis.call('ZCARD', prefix .. 'ended') - tonumber(ARGV[9])
if over > 0 then
  for _, old in ipairs(redis.call('ZRANGE', prefix .. 'ended', 0, math.min(over, 100) - 1)) do forget(old) end
end
publish(job)
return 1
