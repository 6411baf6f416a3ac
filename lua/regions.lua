-- regions: an agent says by which version of the regions it finds homes, and learns whether another's word contradicts it.
--
-- Why a script: of two that say different things of one version the second is to know.
--
-- KEYS[1]  text: for each version 'version digest time;', the time at which an agent last said so, µs, Redis's clock
-- ARGV     version, digest of its weights, digests of those before, each as hexadecimal digits
-- returns  0; or a version that has other weights here, or that is earlier and not among those before: nothing is written
-- Expires  a day after the last word; a version is forgotten a day after the last word of it
local KEPT = 86400000000
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local own, known = tonumber(ARGV[1]), {}
for i = 2, #ARGV do
  known[ARGV[i]] = true
end
local said = {string.format('%d %s %.0f;', own, ARGV[2], now)}
for version, digest, at in string.gmatch(redis.call('GET', KEYS[1]) or '', '(%d+) (%x+) (%d+);') do
  local number = tonumber(version)
  if now - at <= KEPT then
    if number == own and digest ~= ARGV[2] or number < own and not known[digest] then
      return number
    end
    if number ~= own then
      said[#said + 1] = version .. ' ' .. digest .. ' ' .. at .. ';'
    end
  end
end
redis.call('SET', KEYS[1], table.concat(said), 'PX', '86400000')
return 0
