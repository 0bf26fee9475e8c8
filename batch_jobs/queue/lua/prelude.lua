-- What the scripts share. KEYS[1] is the prefix of every key, ARGV[1] the time (Unix, seconds) as text.
--
-- The whole accounting of a job is two hashes: its tasks and their results. A stage is over when every task has a
-- result, so there is no counter that could be counted down twice.
--
--   tasks:{priority}  stream of what is to be run: job, task, run, attempt; consumer group "workers". First tasks of
--                     jobs have streams of their own, {priority}-new: what has begun goes before what has not
--   job:{id}          hash of the job's fields; _stream (its priority), _run (grows with each retry), _next (the task
--                     that starts when this stage is over: "id kind payload"), _then (the first of these)
--   tasks_of:{id}     hash, task id -> "kind payload"        results_of:{id}  hash, task id -> result
--   covers_of:{id}    hash, task id -> seconds of audio that are settled when it is given up
--   waits_of:{id}     hash, task id -> since when it waits for something that is short
--   dead_of:{id}      hash, task id -> entry in `dead`       dead             stream of dead letters
--   jobs              all jobs by time of creation           open             set of those that have not ended
--   ended             the others by time of their end        again            set of these that can be tried again
--   jobs_of:{owner}   an owner's jobs by time of creation    source:{blob}    set of the jobs of a file
--   delayed           tasks to be tried again, by due time   unused           files to be deleted, by due time
--   bell              stream of one entry, written when there is work, on which idle workers block
--   turn              count of tasks handed out, for the order of priorities

local prefix = KEYS[1]
local now = ARGV[1]
local GROUP = 'workers'
local ENDS = {done = true, partial = true, failed = true, cancelled = true}
local DEAD_LETTERS = 10000
local STREAMS = {'high', 'high-new', 'normal', 'normal-new', 'low', 'low-new'}

local function job_key(job) return prefix .. 'job:' .. job end
local function tasks_key(job) return prefix .. 'tasks_of:' .. job end
local function results_key(job) return prefix .. 'results_of:' .. job end
local function covers_key(job) return prefix .. 'covers_of:' .. job end
local function waits_key(job) return prefix .. 'waits_of:' .. job end
local function dead_key(job) return prefix .. 'dead_of:' .. job end
local function stream_key(priority) return prefix .. 'tasks:' .. priority end

local function publish(job) redis.call('PUBLISH', prefix .. 'changed:' .. job, job) end

local function ring() redis.call('XADD', prefix .. 'bell', 'MAXLEN', '1', '*', 'work', '1') end

local function enqueue(job, task, attempt)
  local found = redis.call('HMGET', job_key(job), '_stream', '_run')
  local stream = found[1]
  if string.match(redis.call('HGET', tasks_key(job), task), '^split%f[%s]') then stream = stream .. '-new' end
  redis.call('XADD', stream_key(stream), '*', 'job', job, 'task', task, 'run', found[2], 'attempt', attempt)
end

local function goes_on(job, run)
  local found = redis.call('HMGET', job_key(job), 'state', '_run')
  return found[1] and not ENDS[found[1]] and found[2] == run
end

-- A task of this run of a job that goes on, and not yet done.
local function wanted(job, task, run)
  return goes_on(job, run) and redis.call('HEXISTS', results_key(job), task) == 0
end

-- Whether a consumer has an entry, by this delivery and not by a later one.
local function mine(priority, message, consumer, deliveries)
  local found = redis.call('XPENDING', stream_key(priority), GROUP, message, message, 1)[1]
  return found and found[2] == consumer and found[4] == tonumber(deliveries)
end

local function remove(priority, message)
  redis.call('XACK', stream_key(priority), GROUP, message)
  redis.call('XDEL', stream_key(priority), message)
end

local function set_fields(job, fields)
  for name, value in pairs(fields) do
    if value == cjson.null then redis.call('HDEL', job_key(job), name)
    else redis.call('HSET', job_key(job), name, value) end
  end
end

local function increase(job, increments)
  for name, by in pairs(increments) do redis.call('HINCRBYFLOAT', job_key(job), name, by) end
end

local function add_tasks(job, tasks)
  local new = 0
  for _, task in ipairs(tasks) do
    if redis.call('HSETNX', tasks_key(job), task[1], task[2]) == 1 then
      if (task[3] or 0) > 0 then redis.call('HSET', covers_key(job), task[1], task[3]) end
      enqueue(job, task[1], 1)
      new = new + 1
    end
  end
  if new > 0 then ring() end
  return new
end

-- Tasks with the increments that belong to them: nothing, when none of them is new.
local function fan_out(job, tasks, increments)
  local new = add_tasks(job, tasks)
  if new > 0 then increase(job, increments) end
  return new
end

local function forget_dead(job)
  for _, entry in ipairs(redis.call('HVALS', dead_key(job))) do redis.call('XDEL', prefix .. 'dead', entry) end
  redis.call('DEL', dead_key(job))
end

-- An ended job of which something can be tried again.
local function note_again(job, state)
  if state ~= 'done' or redis.call('HLEN', dead_key(job)) > 0 then redis.call('SADD', prefix .. 'again', job) end
end

local function index(job)
  local found = redis.call('HMGET', job_key(job), 'owner', 'source', 'created', 'state')
  if not found[2] then return end
  redis.call('ZADD', prefix .. 'jobs_of:' .. (found[1] or ''), found[3], job)
  redis.call('SADD', prefix .. 'source:' .. found[2], job)
  if ENDS[found[4]] then note_again(job, found[4]) end
end

local function forget(job)
  local found = redis.call('HMGET', job_key(job), 'owner', 'source')
  redis.call('ZREM', prefix .. 'jobs_of:' .. (found[1] or ''), job)
  redis.call('SREM', prefix .. 'source:' .. (found[2] or ''), job)
  forget_dead(job)
  redis.call('DEL', job_key(job), tasks_key(job), results_key(job), covers_key(job), waits_key(job))
  redis.call('ZREM', prefix .. 'jobs', job)
  redis.call('ZREM', prefix .. 'ended', job)
  redis.call('SREM', prefix .. 'again', job)
  redis.call('SREM', prefix .. 'open', job)
  publish(job)
end

local function finish(job, state)
  redis.call('HSET', job_key(job), 'state', state, 'ended', now)
  redis.call('HDEL', job_key(job), 'waiting')
  redis.call('DEL', waits_key(job))
  redis.call('SREM', prefix .. 'open', job)
  redis.call('ZADD', prefix .. 'ended', now, job)
  note_again(job, state)
end

-- Starts the next stage, or ends the job, if every task of this one has its result.
local function advance(job)
  if redis.call('HLEN', tasks_key(job)) > redis.call('HLEN', results_key(job)) then return end
  local following = redis.call('HGET', job_key(job), '_next')
  if following then
    redis.call('HDEL', job_key(job), '_next')
    local task, text = string.match(following, '^(%S+) (.*)$')
    add_tasks(job, {{task, text}})
  else
    finish(job, 'done')
  end
end

local letters = {} -- those that this script has written

local function letter(job, task, kind, reason, deliveries)
  local name = job .. ' ' .. task
  letters[name] = letters[name] or redis.call('XADD', prefix .. 'dead', 'MAXLEN', '~', DEAD_LETTERS, '*', 'job', job,
    'task', task, 'kind', kind, 'reason', reason, 'deliveries', deliveries, 'at', now)
  return letters[name]
end

-- Gives a task up: a dead letter, a result that says so, and on with the job, or its end when it needs the task.
local function bury(job, task, reason, deliveries)
  local kind = string.match(redis.call('HGET', tasks_key(job), task), '^(%S+)')
  redis.call('HSET', dead_key(job), task, letter(job, task, kind, reason, deliveries))
  redis.call('HSET', results_key(job), task, cjson.encode({dead = reason}))
  redis.call('HDEL', waits_key(job), task)
  local covers = redis.call('HGET', covers_key(job), task)
  if covers then redis.call('HINCRBYFLOAT', job_key(job), 'covered', covers) end
  if kind == 'chunk' or kind == 'repair' then
    redis.call('HINCRBY', job_key(job), kind == 'chunk' and 'chunks_failed' or 'repairs_done', 1)
    advance(job)
  else
    redis.call('HSET', job_key(job), 'error', reason)
    finish(job, 'failed')
  end
  publish(job)
end

-- The same for a task of a job whose records cannot be worked with: what fails of it is left out.
local function drop(job, task, reason, deliveries)
  if pcall(bury, job, task, reason, deliveries) then return end
  local text = redis.pcall('HGET', tasks_key(job), task)
  local kind = type(text) == 'string' and string.match(text, '^(%S+)') or 'split'
  pcall(letter, job, task, kind, reason, deliveries)
  pcall(redis.call, 'HSET', job_key(job), 'error', reason)
  if not pcall(finish, job, 'failed') then pcall(redis.call, 'SREM', prefix .. 'open', job) end
  publish(job)
end
