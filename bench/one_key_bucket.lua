local t = redis.call('TIME')
local now = t[1] * 1e6 + t[2]
local rate, cap, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local v = redis.call('GET', KEYS[1])
local level, last = cap, now
if v then level, last = struct.unpack('>dd', v) end
if now > last then level = math.min(cap, level + (now - last) * rate) last = now end
if level < cost then return {0, level, math.ceil((cost - level) / rate)} end
level = level - cost
redis.call('SET', KEYS[1], struct.pack('>dd', level, last), 'PX', math.ceil((cap - level) / rate / 1000) + 60000)
return {1, level, 0}
