-- Adaptive limit of a key: feedback raises it by steps while it is used, and lowers it by parts.
--
-- Why atomic: the limit is one for all agents; the feedback that changes it moves the bucket along with it.
--
-- A key without trouble has no state (in gradient mode one without feedback): its limit is the rule's max.
--
-- State    '>I4I7I7I7I2I4I7I7I7': limit; when it last fell, 0: not yet; the window's beginning; sum and number of the
--          window's latencies; its successes; the lowest mean of a window in this era and in the one before, 0: none; the era's
--          beginning. Times and latencies in µs
-- Rule     {gradient, min, max, increase, decrease, tolerance, window, limit, per}: gradient 1 or 0; decrease and
--          tolerance per cent; window and per in µs; limit: of the whole bucket
-- Expires  an hour after its last write, or as long as the whole bucket takes to fill, if that is longer: what a fall
--          freed has come in by then, when the limit is max again. Feedback writes it once a window or more often
-- Twin     lib/core/adaptive.c
local adaptive -- these functions, once a check needs them: a call that has none does not pay for making them

local function adaptive_functions()
  local functions = {}
  local KEPT, BYTES = 3600000000, 52
  local SAMPLES_MIN, SAMPLES_MAX, SERVED_MAX, ERA_WINDOWS = 5, 65535, 4294967295, 60
  local RAISED, LOWERED = 1, 2
  local ADAPTED = 32 -- of an answer's status

  local function forget(a)
    a.limit, a.cut, a.since, a.sum, a.samples, a.served, a.lowest, a.before, a.era = 0, 0, 0, 0, 0, 0, 0, 0, 0
  end

  local function load_state(text)
    local a = {}
    forget(a)
    if text and #text == BYTES then
      a.limit, a.cut, a.since, a.sum, a.samples, a.served, a.lowest, a.before, a.era =
        unpack_fields('>I4I7I7I7I2I4I7I7I7', text)
    end
    return a
  end

  local function save_state(a)
    if a.limit == 0 then
      return call('DEL', a.key)
    end
    local full = a.whole[1] / a.whole[2] * a.whole[3]
    call('SET', a.key, pack_fields('>I4I7I7I7I2I4I7I7I7', a.limit, a.cut, a.since, a.sum, a.samples, a.served, a.lowest,
      a.before, a.era), 'PXAT', expiry_text(now + (full > KEPT and full or KEPT)))
  end

  local function limit_of(a, rule)
    if a.limit == 0 or a.limit > rule.max then
      return rule.max
    end
    return a.limit < rule.min and rule.min or a.limit
  end

  local function set_limit(a, rule, n)
    local before = a.limit
    n = n < rule.min and rule.min or n
    a.limit, a.dirty = n < rule.max and n or rule.max, true
    if a.limit == before then
      return SAME
    end
    return a.limit > before and RAISED or LOWERED
  end

  local function begin_window(a)
    a.since, a.sum, a.samples, a.served = now, 0, 0, 0
  end

  local function fall(a, rule, n)
    a.cut = now
    begin_window(a)
    return set_limit(a, rule, n)
  end

  local function rise(a, rule, used)
    a.dirty = true
    return used and set_limit(a, rule, a.limit + rule.increase) or SAME
  end

  -- As the rule and the clock are now.
  local function begin(a, rule)
    local limit = limit_of(a, rule)
    if a.limit == 0 then
      a.since, a.era = now, now
    end
    a.dirty = a.dirty or limit ~= a.limit or a.cut > now or a.since > now or a.era > now
    a.limit = limit
    a.cut = a.cut < now and a.cut or now
    a.since = a.since < now and a.since or now
    a.era = a.era < now and a.era or now
  end

  -- The lowest that latency has been lately, `mean` included.
  local function lowest(a, rule, mean)
    if now - a.era >= rule.window * ERA_WINDOWS then
      a.before, a.lowest, a.era = a.lowest, 0, now
    end
    if a.lowest == 0 or mean < a.lowest then
      a.lowest = mean
    end
    return a.before > 0 and a.before < a.lowest and a.before or a.lowest
  end

  local function whole_part(v)
    return v - v % 1
  end

  -- Most of what the limit allows at once is spent, or three quarters of what it allows in this window were served.
  local function is_used(a, rule, spent)
    return spent or a.served * 4 * rule.per >= a.limit * 3 * (now - a.since)
  end

  local function judge(a, rule, spent)
    local used = is_used(a, rule, spent)
    local mean = whole_part(a.sum / a.samples)
    local base = lowest(a, rule, mean)
    local ratio = whole_part(base * (100 + rule.tolerance) * 10 / mean)
    if ratio < 1000 then
      local served = whole_part(a.served * rule.per / (now - a.since))
      local by_ratio = whole_part(a.limit * (ratio > 500 and ratio or 500) / 1000)
      local by_served = whole_part((served < a.limit and served or a.limit) * 850 / 1000)
      return fall(a, rule, by_ratio > by_served and by_ratio or by_served)
    end
    begin_window(a)
    if mean * 200 > base * (200 + rule.tolerance) then
      return SAME
    end
    return rise(a, rule, used)
  end

  local function react(a, rule, congested, latency, spent)
    if congested then
      if a.cut > 0 and (now < a.cut + rule.window or now < a.cut + latency) then
        return SAME -- that fall was the answer to this one, too
      end
      return fall(a, rule, whole_part(a.limit * (100 - rule.decrease) / 100))
    end
    a.served, a.dirty = a.served < SERVED_MAX and a.served + 1 or a.served, true
    if rule.gradient == 1 and latency > 0 and a.samples < SAMPLES_MAX and (a.cut == 0 or now >= a.cut + latency) then
      a.sum, a.samples = a.sum + latency, a.samples + 1
    end
    if now < a.since + rule.window then
      return SAME
    end
    if rule.gradient == 1 then
      return a.samples >= SAMPLES_MIN and judge(a, rule, spent) or SAME
    end
    local used = is_used(a, rule, spent)
    begin_window(a)
    return rise(a, rule, used)
  end

  -- An outcome: whether it was too much, how long it took (µs, 0: not known), whether half of the bucket is spent.
  local function feed(a, rule, congested, latency, spent)
    local known = a.limit > 0
    begin(a, rule)
    local change = react(a, rule, congested, latency, spent)
    if rule.gradient == 0 and a.limit == rule.max and now >= a.cut + rule.window then -- no trouble any more
      forget(a)
      a.dirty = known
    end
    return change
  end

  -- The token bucket `whole` with the limit n instead of its own.
  local function bucket(whole, rule, n)
    if n == rule.limit then
      return whole
    end
    local g, rest = n * 1000000, rule.per
    while rest > 0 do
      g, rest = rest, g % rest
    end
    local burst = whole_part(whole[1] / 1000000 * n / rule.limit)
    local l = {(burst < 1 and 1 or burst) * 1000000, n * 1000000 / g, rule.per / g, algorithm = 0}
    if l[2] / l[3] >= 10000000000 then
      l[2], l[3] = 10000000000, 1
    end
    for code = 0, 3 do
      if l[2] % bucket_scales[code] == 0 then
        l[4], l[5] = bucket_scales[code], code
      end
    end
    return l
  end

  -- The limit of the bucket changes: the tokens stay, as far as there is room. A larger limit adds room, never tokens.
  local function move(s, from, to)
    local debt = s.debt + to[1] - from[1]
    s.debt = debt > s.outstanding and debt or s.outstanding
    s.ahead = s.debt > 0 and s.ahead or nil
    s.limit, s.dirty = to, true
  end

  -- All of a batch, by their keys' places.
  local states, order = {}, {}

  local function state_at(ref)
    local a = states[ref]
    if not a then
      a = load_state(strings[ref] or nil)
      a.key = keys[ref]
      states[ref] = a
      order[#order + 1] = a
    end
    return a
  end

  -- The check's limit as it is now: one table as long as it stays, so that the bucket stays loaded.
  local function adapt(c)
    local a, n = c.adaptive, limit_of(c.adaptive, c.adaptive_rule)
    if a.whole ~= c.whole or a.in_force ~= n then
      a.whole, a.in_force, a.bucket = c.whole, n, bucket(c.whole, c.adaptive_rule, n)
    end
    return a.bucket
  end

  -- Reads what a check says of it from the program, and puts the limit in force in the place of the whole one.
  function functions.read(c)
    local rule, ref = {}
    ref, rule.gradient, rule.min, rule.max, rule.increase, rule.decrease, rule.tolerance, rule.window, rule.limit, rule.per,
      at = unpack_fields('<I4BI4I4I4BHddd', program, at)
    c.adaptive, c.adaptive_rule, c.whole = state_at(ref), rule, c.limit
    c.newer = c.newer or is_newer(strings[ref])
    c.limit = adapt(c)
  end

  -- An outcome of the check's key, whose state is loaded; its bucket moves along. Returns what changed.
  function functions.learn(c, congested, latency)
    local s, from = c.state, c.limit
    local change = feed(c.adaptive, c.adaptive_rule, congested, latency, s.debt * 2 >= from[1])
    if change ~= SAME then
      c.limit = adapt(c)
      move(s, from, c.limit)
    end
    return change
  end

  -- The answer, with the limit in force if the check that speaks for it is adaptive.
  function functions.with_limit(answer, checks)
    local status, index = unpack_fields('<BH', answer)
    for i = 1, #checks do
      local c = checks[i]
      if c.index == index and c.adaptive then
        return pack_fields('<B', status + ADAPTED) .. sub(answer, 2) .. pack_fields('<d', limit_of(c.adaptive, c.adaptive_rule))
      end
    end
    return answer
  end

  function functions.save()
    for i = 1, #order do
      if order[i].dirty then
        save_state(order[i])
      end
    end
  end

  return functions
end
