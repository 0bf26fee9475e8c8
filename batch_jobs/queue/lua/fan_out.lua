-- ARGV: now, priority, message, consumer, job, task, run, tasks (JSON), increments (JSON). 1, or 0: not ours any more.
local job, task, run = ARGV[5], ARGV[6], ARGV[7]
local tasks, increments = cjson.decode(ARGV[8]), cjson.decode(ARGV[9])
if not mine(ARGV[2], ARGV[3], ARGV[4]) or not wanted(job, task, run) then return 0 end
if add_tasks(job, tasks) > 0 then
  increase(job, increments)
  publish(job)
end
return 1
