-- ARGV: now, priority, message, consumer, job, task, run, deliveries, result, fields, increments, tasks, what was fanned out
-- (JSON, these four), next or "".
-- 1: the result counts. 0: not ours any more, done before, or the job has ended; nothing is counted.
local job, task, run = ARGV[5], ARGV[6], ARGV[7]
local fields, increments, tasks = cjson.decode(ARGV[10]), cjson.decode(ARGV[11]), cjson.decode(ARGV[12])
local fanned_out = cjson.decode(ARGV[13])
if not mine(ARGV[2], ARGV[3], ARGV[4], ARGV[8]) then return 0 end
remove(ARGV[2], ARGV[3])
if not wanted(job, task, run) then return 0 end
if ARGV[14] ~= '' then redis.call('HSET', job_key(job), '_next', ARGV[14]) end
-- A server that was killed or replaced may have lost what it was told last: a task must not be missing for that.
for _, call in ipairs(fanned_out) do fan_out(job, call[1], call[2]) end
add_tasks(job, tasks)
redis.call('HSET', results_key(job), task, ARGV[9])
redis.call('HDEL', waits_key(job), task)
increase(job, increments)
set_fields(job, fields)
if ENDS[fields.state] then finish(job, fields.state) else advance(job) end
publish(job)
return 1
