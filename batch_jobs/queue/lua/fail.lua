-- ARGV: now, priority, message, consumer, job, task, run, deliveries, reason, attempt, due time of the next
-- attempt or "": no more.
local job, task, run = ARGV[5], ARGV[6], ARGV[7]
if not mine(ARGV[2], ARGV[3], ARGV[4], ARGV[8]) then return 0 end
remove(ARGV[2], ARGV[3])
if not wanted(job, task, run) then return 0 end
if ARGV[11] ~= '' then
  redis.call('ZADD', prefix .. 'delayed', ARGV[11], table.concat({job, task, run, ARGV[10] + 1}, ' '))
  ring() -- the idle workers learn when it is due
else
  bury(job, task, ARGV[9], ARGV[10])
end
return 1
