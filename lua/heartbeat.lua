-- heartbeat: an agent says that it lives and learns how many do.
--
-- Why a script: the agents are told apart by the time of their last call, and that must be one clock, Redis's.
--
-- KEYS[1]  sorted set: member = agent, score = time of its last call, µs
-- ARGV     agent, ms after which a silent agent no longer counts
-- returns  number of agents that count now
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local silent = tonumber(ARGV[2]) * 1000
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - silent))
redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2)
return redis.call('ZCARD', KEYS[1])
