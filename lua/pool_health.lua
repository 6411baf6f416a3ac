-- pool_health: the window of the last outcomes, cooldown and trial, of an endpoint, or of an endpoint as one target sees it.
--
-- Why atomic: the failure that fills the window starts the cooldown, once, for all workers.
--
-- A cooldown began after ticket `began`: what is reported of that one or an earlier one is late. No clock is compared.
local health = {}
local HEALTH = 'BBBBI4ddddd'
local COOLING, PROBED, JUDGED, WARNED = 1, 2, 4, 8

function health.new()
  return {flags = 0, level = 0, good = 0, n = 0, bits = 0, stop = 0, began = 0, trial = 0, trial_stop = 0, since = 0,
    cooling = false}
end

function health.read(text, at)
  local flags, level, good, n, bits, stop, began, trial, trial_stop, since
  flags, level, good, n, bits, stop, began, trial, trial_stop, since, at = unpack_fields('<' .. HEALTH, text, at)
  return {flags = flags, level = level, good = good, n = n, bits = bits, stop = stop, began = began, trial = trial,
    trial_stop = trial_stop, since = since, cooling = flags % 2 == COOLING}, at
end

function health.write(h)
  return pack_fields('<' .. HEALTH, h.flags, h.level, h.good, h.n, h.bits, h.stop, h.began, h.trial, h.trial_stop, h.since)
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
local WINDOW = 2 ^ rule.window
function health.push(h, bit)
  h.bits = (h.bits * 2 + bit) % WINDOW
  h.n = h.n < rule.window and h.n + 1 or rule.window
end

-- The part of the outcomes that were successes; never nothing, or an endpoint could not get better.
function health.rate(n, failures)
  if n == 0 then
    return 1
  end
  local rate = (n - failures) / n
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
local now_ms = (now - now % 1000) / 1000 % 2147483648
local GOOD_NOW, JUDGED_NOW = pack_fields('<I4', now_ms * 2), pack_fields('<I4', now_ms * 2 + 1)
local function recent_add(recent, judged)
  return sub(recent, -RECENT_BYTES + 4) .. (judged and JUDGED_NOW or GOOD_NOW)
end

-- How many outcomes are within `rule.within`, and how many of them are judged.
local function recent_count(recent)
  local within, all, judged = rule.within / 1000, 0, 0
  for i = 1, #recent, 4 do
    local v = unpack_fields('<I4', recent, i)
    local bit = v % 2
    if (now_ms - (v - bit) / 2) % 2147483648 < within then
      all, judged = all + 1, judged + bit
    end
  end
  return all, judged
end

-- What every choice may look at is kept in columns, of a number for each endpoint of the roster: the start of its next turn, its
-- last ticket, tickets in flight, tickets since the last report, and of its window 64 times the outcomes, and the failures. A value
-- is read when it is first looked at. Who writes one says so: `dirty`, and row_changed().
local function column(field, form, width)
  local c = {field = field, form = form, width = width, text = '', values = false, whole = false, dirty = false}
  form = '<' .. form
  c.values = setmetatable({}, {__index = function(values, i)
    local v = unpack_fields(form, c.text, (i - 1) * width + 1)
    values[i] = v
    return v
  end})
  return c
end
local TAG, LAST, FLIGHT, TICKETS, QUALITY =
  column('T', 'd', 8), column('L', 'd', 8), column('F', 'I4', 4), column('C', 'I4', 4), column('Q', 'H', 2)
local columns = {TAG, LAST, FLIGHT, TICKETS, QUALITY}

-- Rows in which something has changed, in any column.
local changed_rows, changed = {}, {}
local function row_changed(i)
  if not changed[i] then
    changed[i], changed_rows[#changed_rows + 1] = true, i
  end
end

-- All of it, as a table.
local function all_of(c)
  if not c.whole then
    local read = read_all(c.text, c.form, c.width, 1, n_endpoints)
    for i, v in pairs(c.values) do
      read[i] = v
    end
    c.values, c.whole = read, true
  end
  return c.values
end

-- Rows that have changed, as the first and the last of each run of neighbours: turns go round, so there are few.
local function changed_runs()
  local runs, last = {}, -1
  table.sort(changed_rows)
  for k = 1, #changed_rows do
    local i = changed_rows[k]
    if i ~= last + 1 or i - runs[#runs - 1] >= CHUNK then
      runs[#runs + 1] = i
      runs[#runs + 1] = i
    end
    runs[#runs], last = i, i
  end
  return runs
end

local function column_part(c, first, last)
  if first == last then
    return pack_fields('<' .. c.form, c.values[first])
  end
  local part, values = {}, c.values
  for i = first, last do
    part[i - first + 1] = values[i]
  end
  return pack_fields('<' .. string.rep(c.form, #part), unpack(part))
end

local function column_text(c, runs)
  local parts, n, done = {}, 0, 0
  if #runs * 4 > n_endpoints then
    all_of(c)
    runs = {}
    for first = 1, n_endpoints, CHUNK do
      runs[#runs + 1], runs[#runs + 2] = first, first + CHUNK - 1 < n_endpoints and first + CHUNK - 1 or n_endpoints
    end
  end
  for k = 1, #runs, 2 do
    local first, last = runs[k], runs[k + 1]
    parts[n + 1], parts[n + 2] = sub(c.text, done * c.width + 1, (first - 1) * c.width), column_part(c, first, last)
    n, done = n + 2, last
  end
  parts[n + 1] = sub(c.text, done * c.width + 1)
  return table.concat(parts)
end

-- The rest of an endpoint is read when it is first looked at. `special`: those of which most calls must know more than the
-- columns say: in cooldown, disabled, an exclusive session's, of growing weight.
local ENDPOINT = '<dddBBB' .. HEALTH
local UNKNOWN = pack_fields(ENDPOINT, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) -- nothing is known of it
local endpoints, texts, special, special_dirty = {}, {}, {}, false

local function is_special(e)
  return e.health.cooling or e.disabled == 1 or e.excluded > now or (e.returned > 0 and now < e.returned + rule.ramp)
end

local function endpoint_of(i)
  local e = endpoints[i]
  if e then
    return e
  end
  local id, text = id_of(i), texts[i]
  if text == nil then
    text = call('HGET', pool, 'e' .. id)
  end
  text = text or UNKNOWN
  local tier, off = record_at(i)
  -- The third is when it was written last: for people.
  local excluded, returned, _, auths, disabled, outcomes, flags, level, good, n, bits, stop, began, trial, trial_stop, since, place =
    unpack_fields(ENDPOINT, text)
  local h = {flags = flags, level = level, good = good, n = n, bits = bits, stop = stop, began = began, trial = trial,
    trial_stop = trial_stop, since = since, cooling = flags % 2 == COOLING}
  e = {index = i, id = id, tier = tier, off = off, excluded = excluded, returned = returned, auths = auths, disabled = disabled,
    outcomes = outcomes, health = h, recent = sub(text, place), dirty = false}
  endpoints[i] = e
  return e
end

-- Reads what is needed of these, by their indices, at once.
local function endpoints_read(wanted)
  local ask, at_of = {}, {}
  for k = 1, #wanted do
    local i = wanted[k]
    if not endpoints[i] and texts[i] == nil then
      texts[i] = false
      at_of[#at_of + 1], ask[#ask + 1] = i, 'e' .. id_of(i)
    end
  end
  local got = read_fields(ask)
  for k = 1, #got do
    texts[at_of[k]] = got[k]
  end
end

local function endpoints_read_all()
  local wanted = {}
  for i = 1, n_endpoints do
    wanted[i] = i
  end
  endpoints_read(wanted)
end

-- Of each tier, by blocks of endpoints: which are open to a call that has no target, no session, and passes none over; and whose
-- turn it is among those, or false; of `stale` blocks it is no longer known. Weights are weighed all at once.
local BLOCK = rule.select == 1 and 65536 or n_endpoints > 64 and 16 or 8
local turns, reweigh = {}, {}
local function block_of(i)
  return (i - 1 - (i - 1) % BLOCK) / BLOCK + 1
end

-- Another may be next; `moved`: it may be open or not.
local function stir(i, moved)
  local known = turns[class[i]]
  if known then
    local b = block_of(i)
    if moved then
      known.open[b] = nil
    end
    known.stale[#known.stale + 1] = b
  end
end

local function touch(e)
  local i, odd = e.index, is_special(e)
  e.dirty, reweigh[i], changes = true, true, changes + 1
  if odd or special[i] then
    if odd ~= (special[i] ~= nil) then
      special[i], special_dirty = odd and e or nil, true
    end
    stir(i, true)
  end
end

-- More or fewer in flight.
local STIRS = rule.select == 2 or rule.has_slots == 1
local function fly(i, n)
  local flying = FLIGHT.values[i] + n
  FLIGHT.values[i], FLIGHT.dirty = flying > 0 and flying or 0, true
  row_changed(i)
  changes = changes + 1
  if STIRS then
    stir(i, rule.has_slots == 1)
  end
end

local function endpoint_text(e)
  local h = e.health
  return pack_fields(ENDPOINT, e.excluded, e.returned, now, e.auths, e.disabled, e.outcomes, h.flags, h.level, h.good, h.n, h.bits,
    h.stop, h.began, h.trial, h.trial_stop, h.since) .. e.recent
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
