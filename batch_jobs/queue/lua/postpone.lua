-- ARGV: now, priority, message, consumer, job, task, run, deliveries, reason, attempt, longest wait, longest pause
-- (seconds, both). 1: it waits; 0: not ours any more, or given up because it has waited for too long.
local job, task, run = ARGV[5], ARGV[6], ARGV[7]
if not mine(ARGV[2], ARGV[3], ARGV[4], ARGV[8]) then return 0 end
remove(ARGV[2], ARGV[3])
if not wanted(job, task, run) then return 0 end
redis.call('HSETNX', waits_key(job), task, now)
local waited = now - redis.call('HGET', waits_key(job), task)
if waited >= tonumber(ARGV[11]) then
  bury(job, task, ARGV[9], ARGV[10])
  return 0
end
local pause = math.min(tonumber(ARGV[12]), math.max(1, waited))
redis.call('ZADD', prefix .. 'delayed', now + pause, table.concat({job, task, run, ARGV[10]}, ' '))
redis.call('HSET', job_key(job), 'waiting', ARGV[9])
ring()
publish(job)
return 1
