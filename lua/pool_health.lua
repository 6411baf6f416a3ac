-- pool_health: the window of the last outcomes, cooldown and trial, of an endpoint, or of an endpoint as one target sees it.
--
-- Why atomic: the failure that fills the window starts the cooldown, once, for all workers.
--
-- A cooldown began after ticket `began`: what is reported of that one or an earlier one is late. No clock is compared.
local health = {}
local HEALTH = '<BBBBI4ddddd'
local COOLING, PROBED, JUDGED, WARNED = 1, 2, 4, 8

function health.new()
  return {flags = 0, level = 0, good = 0, n = 0, bits = 0, stop = 0, began = 0, trial = 0, trial_stop = 0, since = 0,
    cooling = false}
end

function health.read(text, at)
  local flags, level, good, n, bits, stop, began, trial, trial_stop, since
  flags, level, good, n, bits, stop, began, trial, trial_stop, since, at = unpack_fields(HEALTH, text, at)
  return {flags = flags, level = level, good = good, n = n, bits = bits, stop = stop, began = began, trial = trial,
    trial_stop = trial_stop, since = since, cooling = flags % 2 == COOLING}, at
end

function health.write(h)
  return pack_fields(HEALTH, h.flags, h.level, h.good, h.n, h.bits, h.stop, h.began, h.trial, h.trial_stop, h.since)
end

function health.has(h, flag)
  return h.flags % (2 * flag) >= flag
end

function health.set(h, flag, on)
  if health.has(h, flag) ~= on then
    h.flags = h.flags + (on and flag or -flag)
  end
  h.cooling = h.flags % 2 == COOLING
end

function health.failures(h)
  local bits, n = h.bits, 0
  while bits > 0 do
    local bit = bits % 2
    n, bits = n + bit, (bits - bit) / 2
  end
  return n
end

-- Remembers an outcome, 1: a failure, and forgets the one that is `window` ago.
function health.push(h, bit)
  h.bits = (h.bits * 2 + bit) % 2 ^ rule.window
  h.n = h.n < rule.window and h.n + 1 or rule.window
end

-- The part of the outcomes that were successes; never nothing, or an endpoint could not get better.
function health.rate(h)
  if h.n == 0 then
    return 1
  end
  local rate = (h.n - health.failures(h)) / h.n
  return rate > 1 / rule.window and rate or 1 / rule.window
end

-- When it may be used, which is now (0) or later; second: by the passing of time. `probes`: only a probe makes it due.
function health.wait(h, probes)
  if not h.cooling then
    return 0
  end
  local stop = h.stop
  if probes and not health.has(h, PROBED) then
    local probe = now + rule.every
    return (stop > probe and stop or probe) - now
  end
  if stop <= now and h.trial > 0 then
    stop = h.trial_stop
  end
  return stop > now and stop - now or 0
end

-- Begins a cooldown. `hint`: µs that a Retry-After says, 0: none. Returns how long it is.
function health.cool(h, hint)
  local relapse = h.level > 0 and h.good < rule.window
  local n = relapse and h.level or 0
  local length = rule.base
  for _ = 1, n do
    length = length < rule.max and length * 2 or rule.max
  end
  length = length < rule.max and length or rule.max
  local added = length * rule.jitter * chance()
  length = length + (added - added % 1)
  hint = hint < rule.max and hint or rule.max
  if hint > 0 and (hint > length or not relapse) then
    length = hint
  end
  h.level, h.good, h.n, h.bits = n < 60 and n + 1 or 60, 0, 0, 0
  h.stop, h.began, h.trial, h.trial_stop = now + length, vars.seq, 0, 0
  health.set(h, COOLING, true)
  health.set(h, PROBED, false)
  return length
end

-- It is as good as any other again.
function health.back(h)
  h.n, h.bits, h.good, h.trial, h.trial_stop = 0, 0, 0, 0, 0
  health.set(h, COOLING, false)
  health.set(h, JUDGED, false)
  health.set(h, WARNED, false)
end

-- A ticket that was issued before the cooldown began, which its Retry-After may make longer.
function health.late(h, hint)
  hint = hint < rule.max and hint or rule.max
  if h.cooling and hint > 0 and now + hint > h.stop then
    h.stop = now + hint
    return true
  end
  return false
end

-- What a success, a failure or (bit nil) something neutral of ticket `seq` means: IGNORED, KEPT: it is in the window or freed
-- a trial, PASSED: a trial, FAILED: a trial, or the window is full of failures.
local IGNORED, KEPT, PASSED, FAILED = 0, 1, 2, 3
function health.take(h, seq, bit)
  if seq <= h.began then
    return IGNORED
  end
  if h.cooling then
    if h.trial ~= seq then
      return IGNORED
    end
    return bit == 1 and FAILED or PASSED
  end
  if bit == 0 then
    h.good = h.good < 255 and h.good + 1 or 255
  end
  if bit then
    health.push(h, bit)
    if bit == 1 and health.failures(h) >= rule.threshold then
      return FAILED
    end
  end
  return KEPT
end

-- Nobody knows how the trial of ticket `seq` would have gone.
function health.free(h, seq)
  if h.cooling and h.trial == seq then
    h.trial, h.trial_stop = 0, 0
    return true
  end
  return false
end

-- The last outcomes on a target with their times, for blame: 4 bytes each, the time in ms modulo 2^31, doubled, and 1 for one
-- by which an endpoint may have been recognised. 16 of them.
local RECENT_BYTES = 64
local function recent_add(recent, judged)
  local ms = (now - now % 1000) / 1000 % 2147483648
  return sub(recent, -RECENT_BYTES + 4) .. pack_fields('<I4', ms * 2 + (judged and 1 or 0))
end

-- How many outcomes are within `rule.within`, and how many of them are judged.
local function recent_count(recent)
  local ms, within = (now - now % 1000) / 1000 % 2147483648, rule.within / 1000
  local all, judged = 0, 0
  for i = 1, #recent, 4 do
    local v = unpack_fields('<I4', recent, i)
    local bit = v % 2
    if (ms - (v - bit) / 2) % 2147483648 < within then
      all, judged = all + 1, judged + bit
    end
  end
  return all, judged
end

-- Endpoints are parsed when they are first looked at.
local ENDPOINT = '<dddddddBBB'
local texts = {}

local function endpoint_read(e, text)
  if text then
    local place, used -- when it was written last: for people
    e.tag, e.last, e.in_flight, e.tickets, e.excluded, e.returned, used, e.auths, e.disabled, e.outcomes, place =
      unpack_fields(ENDPOINT, text)
    e.health, place = health.read(text, place)
    e.recent = sub(text, place)
  else
    e.health = health.new()
  end
  return e
end

local function endpoint_of(i)
  local e = endpoints[i]
  return e.health and e or endpoint_read(e, texts[i])
end

-- Endpoints that the definition does not have, by id; nil: nothing is known of it.
local strangers = {}
local function endpoint_outside(id)
  local text = not strangers[id] and call('HGET', pool, 'e' .. id)
  strangers[id] = text and endpoint_read({id = id}, text) or strangers[id]
  return strangers[id]
end

local function touch(e)
  e.dirty, changes = true, changes + 1
end

local function endpoint_text(e)
  return pack_fields(ENDPOINT, e.tag, e.last, e.in_flight, e.tickets, e.excluded, e.returned, now, e.auths, e.disabled,
    e.outcomes) .. health.write(e.health) .. e.recent
end

-- Whether the operator, or three unknown keys in a row, have taken it out.
local function is_off(e)
  return e.off == 1 or e.disabled == 1
end

-- The time in cooldown up to now is counted.
local function settle(e)
  local h = e.health
  if h.cooling and now > h.since then
    vars.cooled, vars.all_cooled = vars.cooled + (now - h.since), vars.all_cooled + (now - h.since)
  end
  h.since = now
end

local function count_cooldown()
  vars.cooldowns, vars.all_cooldowns = vars.cooldowns + 1, vars.all_cooldowns + 1
end

local function endpoint_cool(e, hint, why)
  settle(e)
  local length = health.cool(e.health, hint)
  count_cooldown()
  e.outcomes, moves = 0, moves + 1
  touch(e)
  tell(COOLED, e.index, length, why, '')
end

local function endpoint_back(e)
  settle(e)
  health.back(e.health)
  e.returned, moves = now, moves + 1
  touch(e)
  tell(RETURNED, e.index, 0, 0, '')
end

-- One of the first ten outcomes after a cooldown.
local function count_return(e, good)
  if e.outcomes < 10 then
    e.outcomes, vars.back, vars.good = e.outcomes + 1, vars.back + 1, vars.good + (good and 1 or 0)
    touch(e)
  end
end
