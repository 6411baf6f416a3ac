-- decide: a batch of operations on limits, decided in one step.
--
-- Why a script: to read a state, refill it and write it back must be one step, or two agents spend the same token; and
-- one call for many decisions costs Redis less than half of what a call a decision does (figures: README.md).
--
-- The build joins this file, one file an algorithm and decide.lua (cmake/embed.cmake). The agent's side is
-- lib/core/script.c; README.md has the layout of the program and of the reply.
--
-- KEYS     the states' keys, first those that hold strings (read at once by MGET); all with one hash tag
-- ARGV[1]  the program: header, limits, operations (struct.pack, little endian, unaligned)
-- returns  the reply: the call's stamp, now, whether refill was refused, and a record an operation, as one string
--
-- Numbers are whole and below 2^53, so that doubles hold them exactly: amounts in millionths of a token, times in µs.
-- `x - x % y` instead of math.floor: an operation of the machine, not a call.
local call, unpack_fields, pack_fields = redis.call, struct.unpack, struct.pack
local tonumber, format, sub = tonumber, string.format, string.sub
local program, keys = ARGV[1], KEYS
local forever = 9007199254740992 -- 2^53

-- Redis's clock is the only one, read once: everything in the batch happens at the same instant.
local clock = call('TIME')
local now_s = tonumber(clock[1])
local now = now_s * 1000000 + clock[2]

local stamp, stamp_high, plain, n_limits, n_ops, n_strings, earliest, latest, at =
  unpack_fields('<I2I6BHHI4dd', program)

-- The guard: the agent says between which instants Redis's clock must be for the two to agree (lib/core/clock_offset.h).
-- Otherwise one of them is wrong, nobody here knows which, and nothing is refilled: what is there may be spent. Each
-- algorithm's file says what that means for it; all that is asked by other agents is as ever.
local doubted = now < earliest or now > latest

-- How long to wait. In doubt nobody knows; asked again sooner, it would be the same.
local function later(us)
  return (not doubted or us > 100000) and us or 100000
end

-- Whether a later version of this script has written it, in a form that this one would misread.
local function is_newer(text)
  return text and sub(text, 1, 1) == 'V' and string.find(text, '^V%d+:')
end

local limits = {}
for i = 1, n_limits do
  local l = {}
  l.algorithm, l[1], l[2], l[3], l[4], l[5], at = unpack_fields('<Bddddd', program, at)
  limits[i] = l
end

-- unpack() can return some thousand values at most.
local strings
if n_strings == 1 then
  strings = {call('GET', keys[1])}
elseif n_strings <= 1000 then
  strings = n_strings > 0 and call('MGET', unpack(keys, 1, n_strings)) or {}
else
  strings = {}
  for i = 1, n_strings do
    strings[i] = call('GET', keys[i])
  end
end

-- Those of quota.lua, once a batch has a quota: a call that has none does not pay for making them.
local quota
