-- ARGV: now, job, fields (JSON), increments (JSON). 0: there is no such job, or it has ended.
local job, fields, increments = ARGV[2], cjson.decode(ARGV[3]), cjson.decode(ARGV[4])
local state = redis.call('HGET', job_key(job), 'state')
if not state or ENDS[state] then return 0 end
set_fields(job, fields)
increase(job, increments)
publish(job)
return 1
