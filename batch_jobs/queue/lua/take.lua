-- ARGV: now, consumer, lease (ms), most deliveries, whether to reclaim ("1"/"0"), whether to begin jobs ("1"/"0").
-- A lease: {priority, message, job, task, run, attempt, deliveries, task text}.
-- Nothing to do: {last entry of the bell, due time of the next delayed task or ""}.
local BROKEN = 'What the queue holds of its job is broken'
local consumer, lease, most = ARGV[2], ARGV[3], tonumber(ARGV[4])

local due = redis.call('ZRANGEBYSCORE', prefix .. 'delayed', '-inf', now, 'LIMIT', 0, 100)
-- No pause is longer than a minute: what is due later than that was delayed before the clock was set back.
local stray = redis.call('ZRANGEBYSCORE', prefix .. 'delayed', '(' .. (tonumber(now) + 90), '+inf', 'LIMIT', 0, 100)
for _, member in ipairs(stray) do table.insert(due, member) end
for _, member in ipairs(due) do
  redis.call('ZREM', prefix .. 'delayed', member)
  local job, task, run, attempt = string.match(member, '^(%S+) (%S+) (%S+) (%S+)$')
  local readable, still = pcall(wanted, job, task, run)
  if readable and still and not pcall(enqueue, job, task, attempt) then readable = false end
  if not readable then drop(job, task, BROKEN, attempt) end
end
if #due > 0 then ring() end

-- High before normal before low; but of eight tasks handed out two look into normal first and one into low.
local turn = (tonumber(redis.call('GET', prefix .. 'turn')) or 0) % 8
local priorities = {'high', 'normal', 'low'}
if turn == 7 then priorities = {'low', 'high', 'normal'}
elseif turn % 4 == 2 then priorities = {'normal', 'high', 'low'} end
local order = {}
for _, priority in ipairs(priorities) do
  table.insert(order, priority)
  if ARGV[6] == '1' then table.insert(order, priority .. '-new') end
end

local function fields_of(entry)
  local value = {}
  for index = 1, #entry[2], 2 do value[entry[2][index]] = entry[2][index + 1] end
  return value
end

local function lease_of(priority, entry, deliveries)
  local value = fields_of(entry)
  local job, task = value.job, value.task
  if not job or not wanted(job, task, value.run) then
    remove(priority, entry[1])
    return nil
  end
  if deliveries > most then
    remove(priority, entry[1])
    bury(job, task, 'The workers that ran it died or hung, ' .. most .. ' times', most)
    return nil
  end
  if redis.call('HGET', job_key(job), 'state') == 'queued' then
    redis.call('HSET', job_key(job), 'state', 'running')
    redis.call('HSETNX', job_key(job), 'started', now)
    publish(job)
  end
  redis.call('HDEL', job_key(job), 'waiting')
  redis.call('INCR', prefix .. 'turn')
  local text = redis.call('HGET', tasks_key(job), task)
  return {priority, entry[1], job, task, value.run, value.attempt, deliveries, text}
end

-- One whose records cannot be worked with is given up, or it would be in everybody's way.
local function sound_lease_of(priority, entry, deliveries)
  local sound, answer = pcall(lease_of, priority, entry, deliveries)
  if sound then return answer end
  local value = fields_of(entry)
  remove(priority, entry[1])
  drop(value.job, value.task, BROKEN, deliveries)
  return nil
end

-- XPENDING with IDLE looks at every pending entry; XAUTOCLAIM with COUNT 1 gives up after ten that are alive.
local function reclaimed(priority)
  local stream = stream_key(priority)
  while true do
    local found = redis.call('XPENDING', stream, GROUP, 'IDLE', lease, '-', '+', 1)[1]
    if not found then return nil end
    local entry = redis.call('XCLAIM', stream, GROUP, consumer, lease, found[1])[1]
    if not entry then
      redis.call('XACK', stream, GROUP, found[1])
    else
      local taken = sound_lease_of(priority, entry, found[4] + 1)
      if taken then return taken end
    end
  end
end

local function new(priority)
  while true do
    local found = redis.call('XREADGROUP', 'GROUP', GROUP, consumer, 'COUNT', 1, 'STREAMS', stream_key(priority), '>')
    if not found then return nil end
    local taken = sound_lease_of(priority, found[1][2][1], 1)
    if taken then return taken end
  end
end

if ARGV[5] == '1' then
  for _, priority in ipairs(order) do
    local taken = reclaimed(priority)
    if taken then return taken end
  end
end
for _, priority in ipairs(order) do
  local taken = new(priority)
  if taken then return taken end
end

local bell = redis.call('XREVRANGE', prefix .. 'bell', '+', '-', 'COUNT', 1)[1]
local later = redis.call('ZRANGE', prefix .. 'delayed', 0, 0, 'WITHSCORES')
return {bell and bell[1] or '0-0', later[2] or ''}
