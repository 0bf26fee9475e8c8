-- ARGV: now, job, what ("tiny.en cpu"), offer. The answer that holds for the job: its own, else that of the queue, else
-- the offer, which is that of the queue from now on. That of the queue stands as long as it has other jobs.
local job, what = ARGV[2], ARGV[3]
local agreed = prefix .. 'precisions'
local found = redis.call('HGET', job_key(job), 'precisions.' .. what)
if found then return found end
if redis.call('EXISTS', job_key(job)) == 0 then return ARGV[4] end
if redis.call('ZCARD', prefix .. 'jobs') <= 1 then redis.call('HDEL', agreed, what) end
redis.call('HSETNX', agreed, what, ARGV[4])
found = redis.call('HGET', agreed, what)
redis.call('HSET', job_key(job), 'precisions.' .. what, found)
publish(job)
return found
