-- Shares: what a parent's children have of it where their level has a weight.
--
-- Why atomic: what is reserved for one child must be seen by the take of another, and by no take half.
--
-- The parent's tokens T are split: each active child has a reserve, together at most T, and what is in none is free.
-- What is new (refilled, given back, left by a child that lapsed) goes into the reserves by weight, none above its cap,
-- the burst's part by weight, and into the free pool once all are full: weighted max-min fairness, as in HTB and, for
-- fluids, generalised processor sharing (Parekh and Gallager 1993). A child takes from the free pool and its reserve.
-- A take too large for what the full reserves of the others leave may have a part of these: a bucket that is full lets
-- any take pass. Nothing here adds tokens to the parent: its own bound holds as without.
--
-- A child is active until `idle` µs after it last asked; then its reserve is free. A newcomer gets its part of all
-- reserves. SHARES_MAX children have one at a time; beyond, the one that asked longest ago makes room.
--
-- State    of each child 'c8I4I4I7I4': id, weight, the tokens it could use at once, reserve in millionths of a token,
--          and the second in which it asked, an eighth of `idle` out of date at most
-- Expires  60 s after the last child lapsed, rounded up to a second
-- Twin     lib/core/shares.c
local share -- these functions, once a check needs them: a call that has none does not pay for making them

local function share_functions()
  local functions = {}
  local SHARES_MAX, SHARE_BYTES = 64, 27

  -- Not settled yet: free is none of what it can be.
  local function new()
    return {n = 0, at = {}, id = {}, weight = {}, most = {}, reserve = {}, asked = {}, sum = 0, free = -1}
  end

  function functions.load(text)
    local p = new()
    if text and #text % SHARE_BYTES == 0 then
      local fields = {unpack_fields('<' .. string.rep('c8I4I4I7I4', #text / SHARE_BYTES), text)}
      for f = 1, #fields - 1, 5 do
        local i = p.n + 1
        p.n, p.at[fields[f]] = i, i
        p.id[i], p.weight[i], p.most[i], p.reserve[i], p.asked[i] = unpack(fields, f, f + 4)
      end
    end
    return p
  end

  function functions.copy(p)
    local copy = new()
    copy.n, copy.sum, copy.free, copy.cap, copy.caps, copy.all_caps, copy.idle =
      p.n, p.sum, p.free, p.cap, p.caps, p.all_caps, p.idle
    for i = 1, p.n do
      copy.at[p.id[i]] = i
      copy.id[i], copy.weight[i], copy.most[i] = p.id[i], p.weight[i], p.most[i]
      copy.reserve[i], copy.asked[i] = p.reserve[i], p.asked[i]
    end
    return copy
  end

  function functions.save(p)
    local out = {}
    for i = 1, p.n do
      out[i] = pack_fields('<c8I4I4I7I4', p.id[i], p.weight[i], p.most[i], p.reserve[i], p.asked[i])
    end
    call('SET', p.key, table.concat(out), 'PXAT', expiry_text(now + p.idle))
  end

  -- The i-th goes; the last takes its place.
  local function drop(p, i)
    local n = p.n
    p.at[p.id[i]] = nil
    if i < n then
      p.at[p.id[n]] = i
      p.id[i], p.weight[i], p.most[i], p.reserve[i], p.asked[i] =
        p.id[n], p.weight[n], p.most[n], p.reserve[n], p.asked[n]
    end
    p.n = n - 1
  end

  function functions.lapse(p)
    for i = p.n, 1, -1 do
      if now_s - p.asked[i] > p.idle / 1000000 then
        drop(p, i)
      end
    end
  end

  -- What is free goes into the reserves that have room, by weight, until there is none or all are full.
  local function fill(p, caps)
    local full
    repeat
      local open, rest = 0, p.free
      for i = 1, p.n do
        if p.reserve[i] < caps[i] then
          open = open + p.weight[i]
        end
      end
      full = false
      for i = 1, p.n do
        local room = caps[i] - p.reserve[i]
        if room > 0 then
          local part = rest
          if p.weight[i] < open then
            part = rest * p.weight[i] / open
            part = part - part % 1
          end
          part = part < p.free and part or p.free
          if part >= room then
            part, full = room, true
          end
          p.reserve[i], p.sum, p.free = p.reserve[i] + part, p.sum + part, p.free - part
        end
      end
    until not full or p.free <= 0
  end

  -- The reserves with `tokens` in a parent that holds `cap`, both in millionths.
  local function settle(p, tokens, cap)
    local weights, sum, all, caps, reserve = 0, 0, 0, {}, p.reserve
    for i = 1, p.n do
      weights = weights + p.weight[i]
    end
    for i = 1, p.n do
      local part, most = cap * p.weight[i] / weights, p.most[i] * 1000000
      part = part - part % 1
      caps[i] = part < most and part or most
      reserve[i] = reserve[i] < caps[i] and reserve[i] or caps[i]
      sum, all = sum + reserve[i], all + caps[i]
    end
    if sum > tokens then -- some went elsewhere: feedback, a lowered limit
      local before = sum
      sum = 0
      for i = 1, p.n do
        local part = reserve[i] * tokens / before
        reserve[i] = part - part % 1
        sum = sum + reserve[i]
      end
    end
    p.sum, p.free, p.cap, p.caps, p.all_caps = sum, tokens - sum, cap, caps, all
    if p.free > 0 then
      fill(p, caps)
    end
  end

  -- Makes room for one more: whose last question is the oldest goes.
  local function evict(p)
    local oldest = 1
    for i = 2, p.n do
      oldest = p.asked[i] < p.asked[oldest] and i or oldest
    end
    drop(p, oldest)
  end

  -- A newcomer: everyone gives the part of his reserve that is the newcomer's by weight.
  local function add(p, id, weight, most, tokens)
    if p.n == SHARES_MAX then
      evict(p)
    end
    local weights, left = 0, tokens
    for i = 1, p.n do
      weights = weights + p.weight[i]
    end
    for i = 1, p.n do
      local part = p.reserve[i] * weights / (weights + weight)
      p.reserve[i] = part - part % 1
      left = left - p.reserve[i]
    end
    local i = p.n + 1
    p.n, p.at[id] = i, i
    p.id[i], p.weight[i], p.most[i], p.reserve[i], p.asked[i] = id, weight, most, left > 0 and left or 0, now_s
  end

  -- The child `id` asks: returns its place, all reserves as they are now.
  function functions.ask(p, id, weight, most, tokens, cap)
    if p.free ~= tokens - p.sum or p.free < 0 or p.cap ~= cap then
      settle(p, tokens, cap)
    end
    local i = p.at[id]
    if not i then
      add(p, id, weight, most, tokens)
      settle(p, tokens, cap)
      p.dirty = true
      return p.at[id]
    end
    if p.weight[i] ~= weight or p.most[i] ~= most then
      p.weight[i], p.most[i], p.dirty = weight, most, true
      settle(p, tokens, cap)
    end
    if math.abs(now_s - p.asked[i]) * 8000000 >= p.idle then
      p.asked[i], p.dirty = now_s, true
    end
    return i
  end

  -- What is kept from the i-th for the others when it takes `cost` millionths: their reserves, unless a parent that is
  -- full would not hold both.
  local function kept(p, i, cost)
    local others, beside, sum = p.all_caps - p.caps[i], p.cap - cost, 0
    if others <= beside then
      return p.sum - p.reserve[i]
    end
    for j = 1, p.n do
      if j ~= i then
        local part = p.caps[j] * beside / others
        part = part - part % 1
        sum = sum + (p.reserve[j] < part and p.reserve[j] or part)
      end
    end
    return sum
  end

  -- Parts are rounded down: so many millionths may be missing to what was promised, and are taken from the others.
  local function rounding(p)
    return 2 * (p.n - 1)
  end

  -- Millionths that the i-th could take now.
  function functions.room(p, i)
    local room, tokens = p.reserve[i] + p.free + rounding(p), p.sum + p.free
    if room < 1000000 and p.cap >= 1000000 then
      local more = tokens - kept(p, i, 1000000)
      room = more > room and more or room
    end
    room = room < tokens and room or tokens
    return room > 0 and room or 0
  end

  -- Millionths that must come to the parent until `cost` fits the i-th; 0: it fits. At most until the parent is full.
  function functions.lack(p, i, cost)
    if cost <= p.reserve[i] + p.free then
      return 0
    end
    local tokens = p.sum + p.free
    local need = cost + kept(p, i, cost) - tokens
    if need <= rounding(p) then
      return 0
    end
    local own, lack, weight = p.caps[i] - p.reserve[i], 0, p.weight[i]
    for j = 1, p.n do
      local part, room = need * p.weight[j] / weight, p.caps[j] - p.reserve[j]
      if part % 1 > 0 then
        part = part - part % 1 + 1
      end
      lack = lack + ((part < room and need <= own) and part or room)
    end
    if need > own then
      lack = lack + need - own
    end
    return lack < p.cap - tokens and lack or p.cap - tokens
  end

  -- Takes what is free, then from the reserve (while something is free all reserves are full). Returns how much of it.
  function functions.take(p, i, cost)
    local own = cost - p.free
    own = own > 0 and own or 0
    own = own < p.reserve[i] and own or p.reserve[i]
    p.reserve[i], p.sum, p.free = p.reserve[i] - own, p.sum - own, p.free - (cost - own)
    return own
  end

  function functions.untake(p, i, cost, own)
    p.reserve[i], p.sum, p.free = p.reserve[i] + own, p.sum + own, p.free + (cost - own)
  end

  return functions
end
