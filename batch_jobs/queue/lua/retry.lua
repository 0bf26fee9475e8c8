-- ARGV: now, job, most open jobs. 1: it runs again; 0: not ended, or nothing to do better; -1: too many open jobs.
-- What was split and transcribed stays; the rest of that is queued, and everything from the stitch on is made anew.
local job = ARGV[2]
local state = redis.call('HGET', job_key(job), 'state')
if not state or not ENDS[state] then return 0 end
if (state == 'done' or state == 'partial') and redis.call('HLEN', dead_key(job)) == 0 then return 0 end
if redis.call('SCARD', prefix .. 'open') >= tonumber(ARGV[3]) then return -1 end

redis.call('HINCRBY', job_key(job), '_run', 1)
redis.call('HSET', job_key(job), 'state', 'queued', 'chunks_failed', 0, 'repairs', 0, 'repairs_done', 0,
  '_next', redis.call('HGET', job_key(job), '_then'))
redis.call('HDEL', job_key(job), 'ended', 'error')
redis.call('ZREM', prefix .. 'ended', job)
redis.call('SREM', prefix .. 'again', job)
redis.call('SADD', prefix .. 'open', job)

local dead = {}
for _, task in ipairs(redis.call('HKEYS', dead_key(job))) do dead[task] = true end
forget_dead(job)
local found = redis.call('HGETALL', tasks_key(job))
for index = 1, #found, 2 do
  local task = found[index]
  local kind = string.match(found[index + 1], '^(%S+)')
  if kind == 'split' or kind == 'chunk' then
    if dead[task] then
      redis.call('HDEL', results_key(job), task)
      local covers = redis.call('HGET', covers_key(job), task)
      if covers then redis.call('HINCRBYFLOAT', job_key(job), 'covered', -covers) end
    end
    if redis.call('HEXISTS', results_key(job), task) == 0 then enqueue(job, task, 1) end
  else
    redis.call('HDEL', results_key(job), task)
    redis.call('HDEL', tasks_key(job), task)
  end
end
advance(job)
ring()
publish(job)
return 1
