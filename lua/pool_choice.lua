-- pool_choice: whose turn it is.
--
-- Why atomic: two agents that choose at once would choose the same.
--
-- Round-robin is start-time fair queueing with equal weights: each endpoint has a tag, the start of its next turn; the least tag
-- is next, and one that was away begins where the others are. Weighted is WF2Q+ with one unit a request: of those whose start has
-- come the one that would end first (Bennett, Zhang: Hierarchical packet fair queueing algorithms, 1997).
local choice = {}

-- What of the weight counts: after a return it grows, and failures make it less.
local function weight_now(e)
  local w = e.weight * health.rate(e.health)
  if rule.ramp > 0 and e.returned > 0 and now < e.returned + rule.ramp then
    w = w * (0.1 + 0.9 * ((now > e.returned and now - e.returned or 0) / rule.ramp))
  end
  return w
end

local function before(a, b)
  return a.last < b.last or (a.last == b.last and a.index < b.index)
end

choice[0] = function(open, tier) -- round-robin
  local v, best, best_tag = vars.tag[tier]
  for i = 1, #open do
    local e = open[i]
    local tag = e.tag > v and e.tag or v
    if not best or tag < best_tag or (tag == best_tag and before(e, best)) then
      best, best_tag = e, tag
    end
  end
  vars.tag[tier] = best_tag
  return best, best_tag + 1
end

choice[1] = function(open, tier) -- weighted
  local v, all, least = vars.tag[tier], 0
  for i = 1, #open do
    local e = open[i]
    e.now = weight_now(e)
    local behind = v - 2 / e.now
    e.start = e.tag > behind and e.tag or behind
    all = all + e.now
    least = (not least or e.start < least) and e.start or least
  end
  v = v > least and v or least
  local best, best_stop
  for i = 1, #open do
    local e = open[i]
    local stop = e.start + 1 / e.now
    if e.start <= v + 1e-9 and (not best or stop < best_stop or (stop == best_stop and before(e, best))) then
      best, best_stop = e, stop
    end
  end
  vars.tag[tier] = v + 1 / all
  return best, best_stop
end

choice[2] = function(open) -- least-loaded
  local best
  for i = 1, #open do
    local e = open[i]
    local a, b = best and e.in_flight * best.weight, best and best.in_flight * e.weight
    if not best or a < b or (a == b and before(e, best)) then
      best = e
    end
  end
  return best, best.tag
end

-- The floor: so few are active or due that those which are left are spared for a while.
local floor_seen = -1
local function floor_check()
  if floor_seen == moves then
    return
  end
  local active, due = 0, 0
  for i = 1, #endpoints do
    local e = endpoint_of(i)
    if not is_off(e) then
      if not e.health.cooling then
        active = active + 1
      elseif e.health.stop <= now and (rule.health == 0 or health.has(e.health, PROBED)) then
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
  local stops, there = {}, 0
  for i = 1, #endpoints do
    local e = endpoints[i]
    if not is_off(e) then
      local wait = e.health.cooling and (e.health.stop > now and e.health.stop - now or 0) or 0
      if wait > 0 then
        stops[#stops + 1] = wait
      else
        there = there + 1
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
