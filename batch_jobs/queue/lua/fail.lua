-- ARGV: now, priority, message, consumer, job, task, run, reason, attempt, due time of the next attempt or "": no more.
local job, task, run = ARGV[5], ARGV[6], ARGV[7]
if not mine(ARGV[2], ARGV[3], ARGV[4]) then return 0 end
remove(ARGV[2], ARGV[3])
if not wanted(job, task, run) then return 0 end
if ARGV[10] ~= '' then
  redis.call('ZADD', prefix .. 'delayed', ARGV[10], table.concat({job, task, run, ARGV[9] + 1}, ' '))
  ring() -- the idle workers learn when it is due
else
  bury(job, task, ARGV[8], ARGV[9])
end
return 1
