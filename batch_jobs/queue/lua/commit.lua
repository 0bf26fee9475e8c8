-- ARGV: now, priority, message, consumer, job, task, run, result, fields, increments, tasks (all JSON), next or "".
-- 1: the result counts. 0: not ours any more, done before, or the job has ended; nothing is counted.
local job, task, run = ARGV[5], ARGV[6], ARGV[7]
local fields, increments, tasks = cjson.decode(ARGV[9]), cjson.decode(ARGV[10]), cjson.decode(ARGV[11])
if not mine(ARGV[2], ARGV[3], ARGV[4]) then return 0 end
remove(ARGV[2], ARGV[3])
if not wanted(job, task, run) then return 0 end
if ARGV[12] ~= '' then redis.call('HSET', job_key(job), '_next', ARGV[12]) end
add_tasks(job, tasks)
redis.call('HSET', results_key(job), task, ARGV[8])
increase(job, increments)
set_fields(job, fields)
if ENDS[fields.state] then finish(job, fields.state) else advance(job) end
publish(job)
return 1
