-- pool_choice: whose turn it is.
--
-- Why atomic: two agents that choose at once would choose the same.
--
-- Round-robin is start-time fair queueing with equal weights: each endpoint has a tag, the start of its next turn; the least tag
-- is next, and one that was away begins where the others are. Weighted is WF2Q+ with one unit a request: of those whose start has
-- come the one that would end first (Bennett, Zhang: Hierarchical packet fair queueing algorithms, 1997).
--
-- Each way gets the endpoints that can be chosen from, by their indices, and the tier's virtual time. It returns the one chosen,
-- the virtual time then, and the tag with which that one goes on.

local function round_robin(open, v)
  if not (TAG.whole and LAST.whole) then
    all_of(TAG)
    all_of(LAST)
  end
  local tags, lasts, best, best_tag, best_last = TAG.values, LAST.values, nil, math.huge, 0
  for k = 1, open.n do
    local i = open[k]
    local tag = tags[i]
    if tag < v then
      tag = v
    end
    if tag < best_tag or (tag == best_tag and lasts[i] < best_last) then
      best, best_tag, best_last = i, tag, lasts[i]
    end
  end
  return best, best_tag, best_tag + 1
end

local function weighted()
  local heft, hefts = {}, 0

  -- What of the weight counts: after a return it grows, and failures make it less.
  local function weight_now(i)
    local e, n, failures = endpoints[i]
    if e then
      n, failures = e.health.n, health.failures(e.health)
    else
      local quality = QUALITY.values[i]
      failures = quality % 64
      n = (quality - failures) / 64
    end
    local w = weights[i] * health.rate(n, failures)
    if e and rule.ramp > 0 and e.returned > 0 and now < e.returned + rule.ramp then
      w = w * (0.1 + 0.9 * ((now > e.returned and now - e.returned or 0) / rule.ramp))
    end
    return w
  end

  return function(open, v)
    local tags, lasts, starts, n, least = all_of(TAG), all_of(LAST), {}, open.n
    weights_read()
    for i in pairs(reweigh) do
      local w = heft[i] and weight_now(i)
      if w and w ~= heft[i] then
        heft[i], hefts = w, hefts + 1
      end
      reweigh[i] = nil
    end
    local all = open.hefts == hefts and open.weight or 0
    if all == 0 then
      for k = 1, n do
        local i = open[k]
        heft[i] = heft[i] or weight_now(i)
        all = all + heft[i]
      end
      open.weight, open.hefts = all, hefts
    end
    for k = 1, n do
      local i = open[k]
      local start, behind = tags[i], v - 2 / heft[i]
      start = start > behind and start or behind
      starts[k] = start
      least = (not least or start < least) and start or least
    end
    v = v > least and v or least
    local best, best_stop
    for k = 1, n do
      if starts[k] <= v + 1e-9 then
        local i = open[k]
        local stop = starts[k] + 1 / heft[i]
        if not best or stop < best_stop or (stop == best_stop and lasts[i] < lasts[best]) then
          best, best_stop = i, stop
        end
      end
    end
    return best, v + 1 / all, best_stop
  end
end

local function least_loaded(open, v)
  local lasts, flying, best = all_of(LAST), all_of(FLIGHT)
  weights_read()
  for k = 1, open.n do
    local i = open[k]
    local a, b = best and flying[i] * weights[best], best and flying[best] * weights[i]
    if not best or a < b or (a == b and lasts[i] < lasts[best]) then
      best = i
    end
  end
  return best, v, TAG.values[best]
end

local choice = rule.select == 0 and round_robin or rule.select == 1 and weighted() or least_loaded

-- The floor: so few are active or due that those which are left are spared for a while.
local floor_seen = -1
local function floor_check()
  if floor_seen == moves then
    return
  end
  local active, due = rule.on, 0
  for _, e in pairs(special) do
    if e.off == 0 and e.disabled == 1 then
      active = active - 1
    elseif e.off == 0 and e.health.cooling then
      active = active - 1
      if e.health.stop <= now and (rule.health == 0 or health.has(e.health, PROBED)) then
        due = due + 1
      end
    end
  end
  if active < vars.least then
    vars.least, vars.dirty = active, true
  end
  local n = active + due
  vars.active = active
  if n >= rule.floor then
    if vars.below == 1 then
      vars.dirty = true
      if vars.paused > 0 then
        tell(RESUMED, 0, 0, 0, '')
      end
    end
    vars.below, vars.paused = 0, 0
  elseif vars.paused > 0 and vars.paused <= now then
    vars.paused, vars.mark, vars.dirty = 0, n, true
    tell(RESUMED, 0, 0, 0, '')
  elseif vars.below == 0 or (vars.paused == 0 and n < vars.mark) then
    vars.below, vars.mark, vars.paused, vars.dirty = 1, n, now + rule.pause, true
    tell(PAUSED, n, rule.pause, 0, '')
  elseif n > vars.mark then
    vars.mark, vars.dirty = n, true
  end
  floor_seen = moves
end

-- µs that the floor's pause still lasts: its time, or until enough cooldowns are over.
local function floor_wait()
  if vars.below == 0 or vars.paused <= now then
    return 0
  end
  local stops, there = {}, rule.on
  for _, e in pairs(special) do
    if e.off == 0 then
      local wait = e.health.cooling and e.health.stop > now and e.health.stop - now or 0
      if e.disabled == 1 or wait > 0 then
        there = there - 1
      end
      if e.disabled == 0 and wait > 0 then
        stops[#stops + 1] = wait
      end
    end
  end
  local wait, lacks = vars.paused - now, rule.floor - there
  if lacks > 0 and #stops >= lacks and rule.health == 0 then
    table.sort(stops)
    wait = stops[lacks] < wait and stops[lacks] or wait
  end
  return wait
end
