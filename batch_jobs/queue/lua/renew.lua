-- ARGV: now, consumer, then priority, message, job, run, deliveries of each lease. For each: 1 ours, 0 lost, 2 the job has ended.
local answer = {}
for index = 3, #ARGV, 5 do
  local priority, message, job, run = ARGV[index], ARGV[index + 1], ARGV[index + 2], ARGV[index + 3]
  if not mine(priority, message, ARGV[2], ARGV[index + 4]) then
    answer[#answer + 1] = 0
  else
    redis.call('XCLAIM', stream_key(priority), GROUP, ARGV[2], 0, message, 'JUSTID')
    local readable, still = pcall(goes_on, job, run)
    answer[#answer + 1] = (still or not readable) and 1 or 2
  end
end
return answer
