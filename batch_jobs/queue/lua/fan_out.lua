-- ARGV: now, priority, message, consumer, job, task, run, deliveries, tasks, increments (JSON, both).
-- 1, or 0: not ours any more.
local job, task, run = ARGV[5], ARGV[6], ARGV[7]
local tasks, increments = cjson.decode(ARGV[9]), cjson.decode(ARGV[10])
if not mine(ARGV[2], ARGV[3], ARGV[4], ARGV[8]) or not wanted(job, task, run) then return 0 end
if fan_out(job, tasks, increments) > 0 then publish(job) end
return 1
