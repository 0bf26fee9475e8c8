-- ARGV: now, priority, message, consumer, job, task, run, deliveries, reason. 1: given up; 0: another has it, or nobody
-- wants it. A script may have failed in its middle: then the entry is gone, and a result may be there that nothing came
-- of, for whoever lost the lease before fails of nothing.
local job, task = ARGV[5], ARGV[6]
local entry = redis.call('XPENDING', stream_key(ARGV[2]), GROUP, ARGV[3], ARGV[3], 1)[1]
if entry and not mine(ARGV[2], ARGV[3], ARGV[4], ARGV[8]) then return 0 end
remove(ARGV[2], ARGV[3])
local readable, still = pcall(function()
  if entry then return wanted(job, task, ARGV[7]) end
  return goes_on(job, ARGV[7])
end)
if readable and not still then return 0 end
drop(job, task, ARGV[9], ARGV[8])
return 1
