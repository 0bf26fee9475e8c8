-- KEYS: bucket. ARGV: most, refill a second, what to take, 1: only if there is so much.
-- {1 if it was taken, thousandths that are left (fewer than none when it is overdrawn)}
local most, rate, amount = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local kept = redis.call('HMGET', KEYS[1], 'left', 'at')
local left = most
if kept[1] then left = math.min(most, tonumber(kept[1]) + math.max(0, now - tonumber(kept[2])) * rate) end
local taken = ARGV[4] == '0' or left >= math.min(amount, most)
if taken then left = left - amount end
redis.call('HSET', KEYS[1], 'left', string.format('%.6f', left), 'at', string.format('%.6f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil((most - left) / rate * 1000) + 1000)
return {taken and 1 or 0, math.floor(left * 1000)}
