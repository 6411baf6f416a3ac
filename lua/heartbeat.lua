-- heartbeat: an agent says that it lives, and for which policies it was given feedback, and learns the same of the others.
--
-- Why a script: the agents are told apart by the time of their last call, and that must be one clock, Redis's.
--
-- KEYS[1]  sorted set: member = agent, score = time of its last call, µs
-- KEYS[2]  sorted set: member = policy, score = time of its last feedback, µs; a day
-- ARGV     agent, ms after which a silent agent no longer counts, policies
-- returns  number of agents that count now, policies with feedback
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local silent, day = tonumber(ARGV[2]) * 1000, 86400000000
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - silent))
redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2)
for i = 3, #ARGV do
  redis.call('ZADD', KEYS[2], string.format('%.0f', now), ARGV[i])
  redis.call('PEXPIRE', KEYS[2], 86400000)
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now - day))
local reply = redis.call('ZRANGE', KEYS[2], 0, -1)
table.insert(reply, 1, redis.call('ZCARD', KEYS[1]))
return reply
