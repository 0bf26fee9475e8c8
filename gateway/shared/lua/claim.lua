-- KEYS: session. ARGV: owner, the number of the last event that the client has heard, how many of its events it was told
-- to be taken in.
-- {fence, names and values}: it is the asker's from now on. -1: nothing is kept for this owner. -2: what is kept does
-- not begin where the client is.
local session = KEYS[1]
local kept = redis.call('HMGET', session, 'owner', 'gone', 'newest', 'taken')
if not kept[1] or kept[1] ~= ARGV[1] then return -1 end
local after = tonumber(ARGV[2])
if after < tonumber(kept[2]) or after > tonumber(kept[3]) or tonumber(ARGV[3]) > tonumber(kept[4]) then return -2 end
local fence = redis.call('HINCRBY', session, 'fence', 1)
return {fence, redis.call('HGETALL', session)}
