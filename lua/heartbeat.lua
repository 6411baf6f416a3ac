-- heartbeat: an agent says that it lives, by which version of the regions it goes, and for which policies it was given feedback, and
-- learns the same of the others.
--
-- Why a script: the agents are told apart by the time of their last call, and that must be one clock, Redis's.
--
-- KEYS[1]  sorted set: member = agent, score = time of its last call, µs
-- KEYS[2]  sorted set: member = policy, score = time of its last feedback, µs; a day
-- KEYS[3]  of a region's own agents, sorted set: member = agent that says a version, score as of KEYS[1]
-- KEYS[4]  likewise: member = version, score = time at which an agent last said it, µs
-- ARGV     agent, ms after which a silent agent no longer counts, its version of the regions (0: it has none), policies
-- returns  number of agents that count now, the least version of theirs (0: none has one), policies with feedback
-- Version  1 is that of an agent that says none, and for as long as an agent counts after nobody was heard for half of that time:
--          Redis was emptied or away, or its clock was set, and others may not have been heard since
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local silent, day, version = tonumber(ARGV[2]) * 1000, 86400000000, tonumber(ARGV[3])

local function keep(key, member, score)
  redis.call('ZADD', key, string.format('%.0f', score), member)
end

local function drop(key, before)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', before))
end

local function least_version(agents)
  local least = 0
  for _, key in ipairs({KEYS[3], KEYS[4]}) do
    drop(key, now - silent)
    redis.call('PEXPIRE', key, ARGV[2] * 2)
  end
  for _, said in ipairs(redis.call('ZRANGE', KEYS[4], 0, -1)) do
    said = tonumber(said)
    least = (least == 0 or said < least) and said or least
  end
  return agents > redis.call('ZCARD', KEYS[3]) and 1 or least
end

local newest = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
keep(KEYS[1], ARGV[1], now)
drop(KEYS[1], now - silent)
redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2)
local agents, least = redis.call('ZCARD', KEYS[1]), 0
if KEYS[3] then
  if not newest or now - newest > silent / 2 then
    keep(KEYS[4], '1', now)
  end
  keep(KEYS[3], ARGV[1], now)
  if version > 0 then
    keep(KEYS[4], ARGV[3], now)
  end
  least = least_version(agents)
end
for i = 4, #ARGV do
  keep(KEYS[2], ARGV[i], now)
  redis.call('PEXPIRE', KEYS[2], 86400000)
end
drop(KEYS[2], now - day)
local reply = redis.call('ZRANGE', KEYS[2], 0, -1)
table.insert(reply, 1, agents)
table.insert(reply, 2, least)
return reply
