-- pool_target: whose fault it is when a target turns endpoints away, and what becomes of the target.
--
-- Why atomic: what each endpoint met there is one picture for all workers, and so is a hold.
--
-- A target's key is a hash: '=' its hold, its tier and the last outcomes in that tier, 'c' the endpoints that cool there, 'e' .. id
-- of an endpoint its health there and its last outcomes there. It expires an hour after nothing of it holds any more. No target
-- ('') means the pool itself: its head is in the pool's hash, and endpoints are judged as a whole.
local target, targets, target_order = {}, {}, {}
local TARGET = '<dBdBI4'

function target.new(name, text)
  local t = {name = name, seen = {}, dirty_of = {}, cools = {}, others = '', moved = false, texts = false, dirty = false, held = 0,
    tier = 1, stop = 0, n = 0, bits = 0}
  if text then
    t.held, t.tier, t.stop, t.n, t.bits = unpack_fields(TARGET, text)
  end
  targets[name] = t
  target_order[#target_order + 1] = t
  return t
end

function target.text(t)
  return pack_fields(TARGET, t.held, t.tier, t.stop, t.n, t.bits)
end

-- '' was loaded with the pool.
function target.of(name)
  local t = targets[name]
  if t then
    return t
  end
  local got = call('HMGET', pool .. 't' .. name, '=', 'c')
  t = target.new(name, got[1])
  local cools, place, hint, id = got[2] or '', 1
  while place <= #cools do
    local from = place
    hint, id, place = unpack_fields('<HBc0', cools, place)
    local i = index_of(id, hint)
    if i then
      t.cools[i] = true
    else
      t.others = t.others .. sub(cools, from, place - 1)
    end
  end
  return t
end

-- How the endpoint does there, by its index; `make`: it is going to be written.
local function seen_of(t, i, make)
  local s = t.seen[i]
  if s == nil then
    local field, text, place = 'e' .. id_of(i)
    if t.texts then
      text = t.texts[field]
    else
      text = call('HGET', pool .. 't' .. t.name, field)
    end
    s = false
    if text then
      s = {}
      s.health, place = health.read(text, 1)
      s.recent = sub(text, place)
    end
    t.seen[i] = s
  end
  if not s and make then
    s = {health = health.new(), recent = ''}
    t.seen[i] = s
  end
  return s
end

-- How all endpoints do there is going to be asked.
function target.read_all(t)
  if not t.texts then
    local fields = call('HGETALL', pool .. 't' .. t.name)
    t.texts = {}
    for i = 1, #fields, 2 do
      t.texts[fields[i]] = fields[i + 1]
    end
  end
end

-- How the endpoint does there has changed.
local function seen_touch(t, i)
  local cools = t.seen[i].health.cooling or nil
  t.moved = t.moved or cools ~= t.cools[i]
  t.dirty_of[i], t.cools[i] = true, cools
end

-- Its time in cooldown counts when it is over: nobody looks at it before.
local function seen_settle(h)
  local us = now > h.since and now - h.since or 0
  vars.cooled, vars.all_cooled, vars.dirty = vars.cooled + us, vars.all_cooled + us, true
end

-- Where there is no half-open, time alone ends it.
local function seen_advance(t, i, s)
  local h = s.health
  if rule.direct == 1 and h.cooling and h.stop <= now then
    seen_settle(h)
    health.back(h)
    seen_touch(t, i)
    tell(RETURNED, i, 0, 0, t.name)
  end
end

function target.touch(t)
  t.dirty, changes = true, changes + 1
end

-- An outcome of `e` on the target, for blame. Not what went wrong before it was reached.
function target.meets(t, e, judged)
  if t.name == '' then
    e.recent = recent_add(e.recent, judged)
    e.dirty = true
  else
    local s = seen_of(t, e.index, true)
    s.recent = recent_add(s.recent, judged)
    seen_touch(t, e.index)
  end
end

-- Blame by concentration: of the endpoints that were there lately, most have met the same.
local function at_fault(t)
  local there, turned_away = 0, 0
  if t.name == '' then
    endpoints_read_all()
  else
    target.read_all(t)
  end
  for i = 1, n_endpoints do
    local recent
    if t.name == '' then
      recent = endpoint_of(i).recent
    else
      local s = seen_of(t, i)
      recent = s and s.recent or ''
    end
    if #recent > 0 then
      local all, judged = recent_count(recent)
      there = there + (all > 0 and 1 or 0)
      turned_away = turned_away + (judged * 2 > all and 1 or 0)
    end
  end
  return there >= rule.least and there > 0 and turned_away >= rule.share * there
end

-- The lowest tier from `tier` on in which there is something to choose from; nil: none.
local tiers_here
local function tier_from(tier)
  if not tiers_here then
    tiers_here = {unpack(rule.given)}
    for i, e in pairs(special) do
      if class[i] > 0 and e.disabled == 1 then
        tiers_here[class[i]] = tiers_here[class[i]] - 1
      end
    end
  end
  for n = tier, 9 do
    if tiers_here[n] > 0 then
      return n
    end
  end
end

-- Targets of which there is something to tell, by when that ends.
local remembered = {}
local function remember_target(t, stop)
  if t.name ~= '' and stop > (remembered[t.name] or 0) then
    remembered[t.name] = stop
  end
end

function target.hold(t, us)
  local was = t.held
  if now + us <= was then
    return
  end
  t.held = now + us
  target.touch(t)
  remember_target(t, t.held)
  tell(was <= now and HELD or EXTENDED, 0, us, 0, t.name)
end

local function tier_now(t)
  return t.stop > now and t.tier or 1
end

-- What is asked of it begins one tier higher. False: there is none.
function target.escalate(t, from)
  local tier = tier_from(from + 1)
  if not tier then
    return false
  end
  if tier > tier_now(t) then
    t.tier, t.stop, t.n, t.bits = tier, now + rule.escalated, 0, 0
    target.touch(t)
    remember_target(t, t.stop)
    tell(ESCALATED, 0, tier, 0, t.name)
  end
  return true
end

local SIGNS = 2 ^ rule.of
-- An outcome of a ticket from `tier`; only those of the tier where the target starts tell whether that is high enough.
function target.sign(t, tier, sign)
  if tier ~= (tier_from(tier_now(t)) or 0) then
    return
  end
  t.bits = (t.bits * 2 + (sign and 1 or 0)) % SIGNS
  t.n = t.n < rule.of and t.n + 1 or rule.of
  t.dirty = true
  if not sign then
    return
  end
  local bits, n = t.bits, 0
  while bits > 0 do
    local bit = bits % 2
    n, bits = n + bit, (bits - bit) / 2
  end
  if n >= rule.after then
    target.escalate(t, tier)
  end
end

-- Whether one more of the tier of `e` may be out by what targets say.
local function may_go_out(t, e)
  local all, out = 0, 0
  for i = 1, n_endpoints do
    local tier, off = record_at(i)
    local o = special[i]
    if tier == e.tier and off == 0 and not (o and o.disabled == 1) then
      all = all + 1
      local s = t.cools[i] and seen_of(t, i)
      if (o and o.health.cooling and health.has(o.health, JUDGED)) or (s and health.has(s.health, JUDGED)) then
        out = out + 1
      end
    end
  end
  return out + 1 <= rule.max_out * all
end

-- `e` was recognised at the target. Returns whether that counted.
function target.blames(t, e, seq, hint, why)
  local i = e.index
  local s = t.name ~= '' and seen_of(t, i, true)
  local h = s and s.health or e.health
  local was = h.cooling
  local what = health.take(h, seq, 1)
  if s then
    seen_touch(t, i)
  else
    touch(e)
  end
  if what == IGNORED then
    if seq <= h.began then
      if health.late(h, hint) then
        changes, moves = changes + 1, moves + 1
        remember_target(t, h.stop)
      end
    end
    return false
  end
  count_return(e, false)
  if what ~= FAILED then
    return true
  end
  if not was and not may_go_out(t, e) then
    if not health.has(h, WARNED) then
      health.set(h, WARNED, true)
      tell(CAPPED, e.index, 0, why, t.name)
    end
    return true
  end
  changes = changes + 1
  if not s then
    endpoint_cool(e, hint, why)
    health.set(h, JUDGED, true)
    return true
  end
  if was then
    seen_settle(h)
  end
  local length = health.cool(h, hint)
  h.since = now
  health.set(h, JUDGED, true)
  seen_touch(t, i)
  count_cooldown()
  remember_target(t, h.stop)
  tell(COOLED, i, length, why, t.name)
  return true
end

-- An answer of the target that says nothing against the endpoint (bit 0: a good one, nil: the target's own error).
function target.answers(t, e, seq, bit)
  local i = e.index
  local s = t.name ~= '' and seen_of(t, i, bit == 0)
  if not s then
    return
  end
  if health.take(s.health, seq, bit) == PASSED then
    seen_settle(s.health)
    health.back(s.health)
    changes = changes + 1
    tell(RETURNED, i, 0, 0, t.name)
  end
  seen_touch(t, i)
end

local function cools_text(t)
  local parts = {t.others}
  for i in pairs(t.cools) do
    local id = id_of(i)
    parts[#parts + 1] = pack_fields('<HBc0', i, #id, id)
  end
  return table.concat(parts)
end

function target.save(t)
  local fields = {}
  if t.dirty then
    fields = {'=', target.text(t)}
  end
  if t.name == '' then
    return fields[2]
  end
  local stop = t.held > t.stop and t.held or t.stop
  for i in pairs(t.dirty_of) do
    local s = t.seen[i]
    fields[#fields + 1] = 'e' .. id_of(i)
    fields[#fields + 1] = health.write(s.health) .. s.recent
    stop = s.health.stop > stop and s.health.stop or stop
  end
  if t.moved then
    fields[#fields + 1], fields[#fields + 2] = 'c', cools_text(t)
  end
  if #fields == 0 then
    return
  end
  local key = pool .. 't' .. t.name
  call_with('HSET', key, fields)
  local ms = ((stop > now and stop - now or 0) + HOUR) / 1000
  ms = ms - ms % 1
  if call('PTTL', key) < ms then
    call('PEXPIRE', key, format('%d', ms))
  end
end
