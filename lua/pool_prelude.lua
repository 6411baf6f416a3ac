-- pool: a batch of operations on one pool, carried out in one step.
--
-- Why a script: whose turn it is, what is in flight, windows and cooldowns are shared by all agents of a region; to choose an
-- endpoint and to count it must be one step.
--
-- The build joins this file and the others that are called so, pool.lua last. The agent's side is lib/core/pool_script.c; README.md
-- has their order and the layouts.
--
-- KEYS[1]  k:p{POOL}, a hash; the other keys of the pool are its name with a letter, and what that stands for, behind it
-- ARGV[1]  the pool's definition as the calling agent has it: the state of endpoints that it does not name is left alone
-- ARGV[2]  the batch
-- returns  what became of each operation, and what has changed, as one string
--
-- Times are µs, shares and virtual times doubles.
local call, unpack_fields, pack_fields = redis.call, struct.unpack, struct.pack
local tonumber, format, sub, byte, unpack = tonumber, string.format, string.sub, string.byte, unpack
local pool, program = KEYS[1], ARGV[2]
local HOUR = 3600000000
local MONTH_MS = '2592000000'

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- Tables are made with all their fields at once: to grow one by one costs more than all else.
local rule = {kind = 0, select = 0, window = 0, threshold = 0, direct = 0, health = 0, exclusive = 0, after = 0, of = 0, base = 0,
  max = 0, trial = 0, ramp = 0, lease = 0, floor = 0, pause = 0, within = 0, least = 0, hold = 0, escalated = 0, ttl = 0, report = 0,
  every = 0, jitter = 0, share = 0, max_out = 0, on = 0, has_slots = 0, given = {0, 0, 0, 0, 0, 0, 0, 0, 0}}
-- The definition begins with the rules; then, of all endpoints: how many are on, how many of each tier can be given something new,
-- whether one has slots; for each in turn the tier in which it can be given, 0: none, its weight, its slots; a record of 12 bytes
-- each; the ids, the accounts. Only what an operation needs of it is read.
local definition = ARGV[1]
local n_endpoints, weights_at, slots_at, records_at, roster
local CHUNK = 2000

-- A row of `many` numbers from `place` on. All at once would be too much for Lua's stack, here and where CHUNK is used elsewhere.
local function read_all(text, form, width, place, many)
  local all = {}
  for first = 1, many, CHUNK do
    local n = first + CHUNK - 1 < many and CHUNK or many - first + 1
    local part = {unpack_fields('<' .. string.rep(form, n), text, place + (first - 1) * width)}
    if n == many then
      return part
    end
    for i = 1, n do
      all[first + i - 1] = part[i]
    end
  end
  return all
end

-- A command that takes any number of arguments.
local function call_with(command, key, arguments)
  for first = 1, #arguments, CHUNK do
    local last = first + CHUNK - 1
    call(command, key, unpack(arguments, first, last < #arguments and last or #arguments))
  end
end

-- Fields of the pool, in their order.
local function read_fields(names)
  local all = {}
  for first = 1, #names, CHUNK do
    local last = first + CHUNK - 1
    local got = call('HMGET', pool, unpack(names, first, last < #names and last or #names))
    for k = 1, #got do
      all[first + k - 1] = got[k]
    end
  end
  return all
end

do
  local given, place, accounts_at = rule.given
  rule.kind, rule.select, rule.window, rule.threshold, rule.direct, rule.health, rule.exclusive, rule.after, rule.of, place =
    unpack_fields('<BBBBBBBBB', definition)
  rule.base, rule.max, rule.trial, rule.ramp, rule.lease, rule.floor, rule.pause, rule.within, rule.least, rule.hold, place =
    unpack_fields('<dddddddddd', definition, place)
  rule.escalated, rule.ttl, rule.report, rule.every, rule.jitter, rule.share, rule.max_out, n_endpoints, rule.on, rule.has_slots,
    accounts_at, place = unpack_fields('<dddddddI4I4BI4', definition, place)
  given[1], given[2], given[3], given[4], given[5], given[6], given[7], given[8], given[9], place =
    unpack_fields('<HHHHHHHHH', definition, place)
  weights_at = place + n_endpoints
  slots_at = weights_at + 8 * n_endpoints
  records_at = slots_at + 8 * n_endpoints
  roster = sub(definition, records_at + 12 * n_endpoints, accounts_at - 1)
end

-- What is rarely asked of an endpoint: its tier, whether the operator has taken it out, its id, its account.
local function record_at(i)
  return unpack_fields('<BBI4BI4B', definition, records_at + 12 * (i - 1))
end

local ids = {}
local function id_of(i)
  local id = ids[i]
  if not id then
    local place, length = unpack_fields('<I4B', definition, records_at + 12 * i - 10)
    id = sub(definition, place, place + length - 1)
    ids[i] = id
  end
  return id
end

-- By its id; nil: it is not in the definition. `hint`: where it may be.
local indices
local function index_of(id, hint)
  if hint > 0 and hint <= n_endpoints and id_of(hint) == id then
    return hint
  end
  if not indices then
    indices = {}
    for i = 1, n_endpoints do
      indices[id_of(i)] = i
    end
  end
  return indices[id]
end

-- The tier in which each can be given, by its index; 0: it is off, or drains.
local class
do
  local first = weights_at - n_endpoints
  class = {byte(definition, first, first + (n_endpoints < CHUNK and n_endpoints or CHUNK) - 1)}
  for i = CHUNK + 1, n_endpoints do
    class[i] = byte(definition, first + i - 1)
  end
end

-- Columns of the definition, read where they are needed.
local weights, slots
local function weights_read()
  weights = weights or read_all(definition, 'd', 8, weights_at, n_endpoints)
end

local function slots_of(i)
  if rule.has_slots == 0 then
    return 0
  end
  slots = slots or read_all(definition, 'd', 8, slots_at, n_endpoints)
  return slots[i]
end

local stamp, luck, n_ops, at = unpack_fields('<c8dI2', program)

-- The next of a row of numbers from 0 to 1, evenly spread whatever the first one was.
local function chance()
  luck = luck + 0.6180339887498949
  luck = luck - (luck >= 1 and 1 or 0)
  return luck
end

-- What has changed, for the log and the topic: kind, endpoint (0: none), amount, why, target.
local COOLED, RETURNED, DISABLED, PAUSED, RESUMED, HELD, ESCALATED, CAPPED, EXTENDED = 1, 2, 3, 4, 5, 6, 7, 8, 9
local events = {}
local function tell(kind, endpoint, amount, why, target)
  events[#events + 1] = pack_fields('<BI2dBI2', kind, endpoint, amount, why, #target) .. target
end

-- How often something has changed: what was found out about the pool before is no longer so.
local changes = 0
-- How often an endpoint came in or went out.
local moves = 0

-- Fields of the hash: '=' the pool itself, '#' its secret, 't' what is known of no target in particular, 'r' the roster: the ids
-- of the definition that was used last; in its order the columns 'T' 'L' 'F' 'C' 'Q', and 'S', those that are not as most are;
-- 'e' .. id of an endpoint, 'o' .. id of one that is in the roster no more, 'a' .. account of a key's account.
local vars = {tag = {0, 0, 0, 0, 0, 0, 0, 0, 0}, fresh = false, dirty = false, active = 0, seq = 0, below = 0, paused = 0, mark = 0,
  from = 0, cooldowns = 0, cooled = 0, least = 0, tickets = 0, above = 0, good = 0, back = 0, all_cooldowns = 0, all_cooled = 0,
  kept = 0}
local secret, salt, whole_text
local VARS = '<dBdddddddddddddddddddddd'

local function read_vars(text)
  local t = vars.tag
  vars.fresh = not text
  vars.seq, vars.below, vars.paused, vars.mark, vars.from, vars.cooldowns, vars.cooled, vars.least, vars.tickets, vars.above,
    vars.good, vars.back, vars.all_cooldowns, vars.all_cooled, vars.kept, t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9] =
    unpack_fields(VARS, text or pack_fields(VARS, 0, 0, 0, 0, now, 0, 0, 1e15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
end

local function write_vars()
  local t = vars.tag
  return pack_fields(VARS, vars.seq, vars.below, vars.paused, vars.mark, vars.from, vars.cooldowns, vars.cooled, vars.least,
    vars.tickets, vars.above, vars.good, vars.back, vars.all_cooldowns, vars.all_cooled, vars.kept, t[1], t[2], t[3], t[4], t[5], t[6],
    t[7], t[8], t[9])
end

-- What a function uses of the one it is made in is looked for among all that is used so, each time it is made; what that one has
-- from outside is at hand. So the other pieces are a function in this one, which ends with the last of them.
return (function()
