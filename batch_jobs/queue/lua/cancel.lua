-- ARGV: now, job. 1: it is cancelled. 0: there is no such job, or it ended otherwise. What is queued of it is dropped
-- when a worker comes to it.
local job = ARGV[2]
local state = redis.call('HGET', job_key(job), 'state')
if state == 'cancelled' then return 1 end
if not state or ENDS[state] then return 0 end
finish(job, 'cancelled')
publish(job)
return 1
