-- ARGV: now, idle time (ms) after which a consumer without tasks goes, or a consumer's name. A consumer that has tasks
-- stays: removing it would lose them.
local least = tonumber(ARGV[2])
for _, priority in ipairs(STREAMS) do
  for _, row in ipairs(redis.call('XINFO', 'CONSUMERS', stream_key(priority), GROUP)) do
    local value = {}
    for index = 1, #row, 2 do value[row[index]] = row[index + 1] end
    if value.pending == 0 and (value.name == ARGV[2] or least and value.idle > least) then
      redis.call('XGROUP', 'DELCONSUMER', stream_key(priority), GROUP, value.name)
    end
  end
end
return 1
