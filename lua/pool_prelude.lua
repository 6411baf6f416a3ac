-- pool: a batch of operations on one pool, carried out in one step.
--
-- Why a script: whose turn it is, what is in flight, windows and cooldowns are shared by all agents of a region; to choose an
-- endpoint and to count it must be one step.
--
-- The build joins this file, pool_health.lua, pool_target.lua, pool_account.lua, pool_choice.lua, pool_session.lua and
-- pool.lua. The agent's side is lib/core/pool_script.c; README.md has the layouts.
--
-- KEYS[1]  k:p{POOL}, a hash; the other keys of the pool are its name with a letter, and what that stands for, behind it
-- ARGV[1]  the pool's definition as the calling agent has it: the state of endpoints that it does not name is left alone
-- ARGV[2]  the batch
-- returns  what became of each operation, and what has changed, as one string
--
-- Times are µs, shares and virtual times doubles.
local call, unpack_fields, pack_fields = redis.call, struct.unpack, struct.pack
local tonumber, format, sub, byte = tonumber, string.format, string.sub, string.byte
local pool, program = KEYS[1], ARGV[2]
local HOUR = 3600000000
local MONTH_MS = '2592000000'

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- Tables are made with all their fields at once: to grow one by one costs more than all else.
local rule = {kind = 0, select = 0, window = 0, threshold = 0, direct = 0, health = 0, exclusive = 0, after = 0, of = 0, base = 0,
  max = 0, trial = 0, ramp = 0, lease = 0, floor = 0, pause = 0, within = 0, least = 0, hold = 0, escalated = 0, ttl = 0, report = 0,
  every = 0, jitter = 0, share = 0, max_out = 0}
local endpoints, n_endpoints = {}, 0
do
  local definition, at, n = ARGV[1], 1
  rule.kind, rule.select, rule.window, rule.threshold, rule.direct, rule.health, rule.exclusive, rule.after, rule.of, at =
    unpack_fields('<BBBBBBBBB', definition)
  rule.base, rule.max, rule.trial, rule.ramp, rule.lease, rule.floor, rule.pause, rule.within, rule.least, rule.hold, at =
    unpack_fields('<dddddddddd', definition, at)
  rule.escalated, rule.ttl, rule.report, rule.every, rule.jitter, rule.share, rule.max_out, n, at =
    unpack_fields('<dddddddI4', definition, at)
  n_endpoints = n
  for i = 1, n do
    local id, account, weight, tier, off, slots
    id, account, weight, tier, off, slots, at = unpack_fields('<Bc0Bc0dBBd', definition, at)
    endpoints[i] = {index = i, id = id, account = account, weight = weight, tier = tier, off = off, slots = slots, tag = 0, last = 0,
      in_flight = 0, tickets = 0, excluded = 0, returned = 0, auths = 0, disabled = 0, outcomes = 10, health = false,
      recent = '', dirty = false, now = 0, start = 0}
  end
end

-- By its id; nil: it is not in the definition.
local indices
local function index_of(id)
  if not indices then
    indices = {}
    for i = 1, n_endpoints do
      indices[endpoints[i].id] = i
    end
  end
  return indices[id]
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

-- Fields of the hash: '=' the pool itself, '#' its secret, 't' what is known of no target in particular, 'r' the last report,
-- 'e' .. id of an endpoint, 'a' .. account of a key's account.
local vars = {tag = {0, 0, 0, 0, 0, 0, 0, 0, 0}, fresh = false, dirty = false, active = 0, seq = 0, below = 0, paused = 0, mark = 0,
  from = 0, cooldowns = 0, cooled = 0, least = 0, tickets = 0, above = 0, good = 0, back = 0, all_cooldowns = 0, all_cooled = 0,
  kept = 0}
local secret, whole_text
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
