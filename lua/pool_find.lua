-- pool_find: which endpoints can be given, or why there is none.
--
-- Why atomic: what is found is chosen, counted and issued before anybody else chooses.
local FLOOR, COOLS, SLOTS, IS_HELD, NOTHING = 1, 2, 3, 4, 5
local forever = 9007199254740992

-- µs until the first lease ends. The set still has those that this batch has ended, and not yet those that it began.
local function first_lease()
  local first, soonest = forever, call('ZRANGE', pool .. 'l', 0, #ended, 'WITHSCORES')
  for i = 1, #soonest, 2 do
    local stop = tonumber(soonest[i + 1])
    first = records[soonest[i]] ~= false and stop < first and stop or first
  end
  for k = 1, #fresh, 2 do
    first = records[fresh[k]] and lease_end < first and lease_end or first
  end
  return first < forever and first > now and first - now or rule.lease
end

-- Those who wait for a place, at all agents, come in the order of their arrival: k:p{POOL}w and the tier has them by that,
-- k:p{POOL}W by when they asked last. Who has not asked for a while is gone. Nobody needs a place where there is no bound.
local NOBODY, line = string.rep('\0', 8), {}

-- How many came earlier.
function line.ahead(op, tier)
  local queue, seen = pool .. 'w' .. tier, pool .. 'W' .. tier
  local gone = call('ZRANGEBYSCORE', seen, '-inf', format('%.0f', now - 500000))
  call_with('ZREM', seen, gone)
  call_with('ZREM', queue, gone)
  if op.arrival == 0 then
    return call('ZCARD', queue)
  end
  return call('ZCOUNT', queue, '-inf', '(' .. format('%.0f', op.arrival))
end

function line.join(op, tier)
  local queue, seen = pool .. 'w' .. tier, pool .. 'W' .. tier
  call('ZADD', queue, 'NX', format('%.0f', op.arrival > 0 and op.arrival or now), op.waiter)
  call('ZADD', seen, format('%.0f', now), op.waiter)
  call('PEXPIRE', queue, 60000)
  call('PEXPIRE', seen, 60000)
end

function line.leave(waiter, tier)
  changes = changes + 1
  call('ZREM', pool .. 'w' .. tier, waiter)
  call('ZREM', pool .. 'W' .. tier, waiter)
end

-- In Lua a function has at most 200 local variables, and what a function that is made there uses of them is looked for among all of
-- them, each time: this piece and the next are functions of their own.
local find = (function()
  -- Why the endpoint of this index can't be given for this call, and for how long; nil: it can. Of several reasons the one that ends
  -- first; one that holds in two ways, everywhere and here, ends with the later. `held`: for how long the target is; `lease`: until
  -- the first one ends.
  local function obstacle(i, t, s, held, lease)
    local why, least, wait = nil, forever, held
    if rule.kind == 1 then
      local own = account.wait(account.of(i))
      wait = own > wait and own or wait
    end
    if wait > 0 then
      why, least = IS_HELD, wait
    end
    local e = special[i]
    wait = e and health.wait(e.health, rule.health == 1) or 0
    if t.cools[i] then
      local seen = seen_of(t, i)
      seen_advance(t, i, seen)
      local here = health.wait(seen.health, false)
      wait = here > wait and here or wait
    end
    if wait > 0 and wait < least then
      why, least = COOLS, wait
    end
    wait = e and rule.exclusive == 1 and e.excluded > now and not (s and s.id == e.id) and e.excluded - now or 0
    local most = slots_of(i)
    if most > 0 and FLIGHT.values[i] >= most then
      wait = lease > wait and lease or wait
    end
    if wait > 0 and wait < least then
      why, least = SLOTS, wait
    end
    return why, least
  end

  -- What obstacle() asks for: nobody waits for a lease where there are no slots.
  local function lease_wait()
    return rule.has_slots == 1 and first_lease() or 1
  end

  local function paused(why, wait, firm)
    return nil, why, wait, firm
  end

  -- Of a session, whose endpoint is as it was: it and nothing else.
  local function kept_endpoint(s, t, first)
    local i = s.id ~= '' and index_of(s.id, s.at)
    local e = i and endpoint_of(i)
    if not e or is_off(e) or e.tier < first then
      return
    end
    local h, seen = e.health, t.name ~= '' and seen_of(t, i)
    if h.cooling or h.began >= s.bound or (seen and (seen.health.cooling or seen.health.began >= s.bound)) then
      return
    end
    return i
  end

  local AGAIN = 50000

  local function is_passed_over(op, i)
    for k = 1, #op.skip do
      if op.skip[k] == i then
        return true
      end
    end
  end

  -- Adds those from `first` to `last` that can be chosen from in `tier` to `open`.
  local function open_endpoints(open, first, last, op, t, s, tier)
    local n, skips, bare = open.n, #op.skip > 0, rule.kind == 0 and rule.has_slots == 0
    for i = first, last do
      if class[i] == tier then
        local e = special[i]
        if not (e and e.disabled == 1 or skips and is_passed_over(op, i)) and
          (bare and not e and not t.cools[i] or not obstacle(i, t, s, 0, 1)) then
          n = n + 1
          open[n] = i
        end
      end
    end
    open.n = n
    return open
  end

  -- Blocks in which this call can't choose what others can, or the other way round; nil: there are none.
  local function odd_blocks(op, t, s)
    local odd, mine = nil, s and rule.exclusive == 1 and s.id ~= '' and index_of(s.id, s.at)
    for i in pairs(t.cools) do
      odd = odd or {}
      odd[block_of(i)] = true
    end
    for k = 1, #op.skip do
      odd = odd or {}
      odd[block_of(op.skip[k])] = true
    end
    if mine then
      odd = odd or {}
      odd[block_of(mine)] = true
    end
    return odd
  end

  local ANYBODY = {skip = {}}
  local function open_in_block(b, op, t, s, tier)
    local first, last = (b - 1) * BLOCK + 1, b * BLOCK
    local open = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n = 0} -- made in one piece
    return open_endpoints(open, first, last < n_endpoints and last or n_endpoints, op, t, s, tier)
  end

  local function turn_among(open, tier)
    return open.n > 0 and (choice(open, vars.tag[tier]))
  end

  local function turns_of(tier)
    local known = turns[tier]
    if not known then
      known = {open = {}, stale = {}, n = block_of(n_endpoints), lacks = 0}
      for b = 1, known.n do
        known.stale[b] = b
      end
      turns[tier] = known
    end
    for k = #known.stale, 1, -1 do
      local b = known.stale[k]
      known.open[b] = known.open[b] or open_in_block(b, ANYBODY, targets[''], nil, tier)
      local was, best = known[b], rule.select ~= 1 and turn_among(known.open[b], tier)
      known.lacks = known.lacks + (best and 0 or 1) - (was == false and 1 or 0)
      known[b], known.stale[k] = best, nil
    end
    return known
  end

  -- Among these is whose turn it is in `tier`; none: none can be chosen. Second: whether others could choose otherwise.
  local found = {n = 0}
  local function candidates(op, t, s, tier)
    local known, odd, n = turns_of(tier), (s or t.name ~= '' or #op.skip > 0) and odd_blocks(op, t, s) or nil, 0
    if rule.select == 1 then
      return odd and open_in_block(1, op, t, s, tier) or known.open[1], odd
    elseif not odd and known.lacks == 0 then
      return known
    end
    for b = 1, known.n do
      local best = known[b]
      if odd and odd[b] then
        best = turn_among(open_in_block(b, op, t, s, tier), tier)
      end
      if best then
        n = n + 1
        found[n] = best
      end
    end
    found.n = n
    return found, odd
  end

  -- Without any, why not, for how long, and for how long nothing can change that.
  local function why_none(op, t, s, tier, held)
    local why, least, firm, lease = NOTHING, forever, forever, lease_wait()
    for i = 1, n_endpoints do
      local e = special[i]
      if class[i] == tier and not (e and e.disabled == 1) and not is_passed_over(op, i) then
        local reason, wait = obstacle(i, t, s, held, lease)
        if wait < least then
          why, least = reason, wait
        end
        local rest = e and e.health.cooling and e.health.stop > now and e.health.stop - now or 0
        rest = rest > held and rest or held
        firm = rest < firm and rest or firm
      end
    end
    if why == NOTHING and held > 0 then
      return IS_HELD, held, held
    end
    return why, least, firm < least and firm or least
  end

  -- Whether the places that there are, one at least, are for those who came earlier. Nobody waits where there is no bound.
  local function is_for_others(op, t, s, tier)
    local ahead = line.ahead(op, tier)
    if ahead == 0 then
      return false
    end
    local open, n = open_endpoints({n = 0}, 1, n_endpoints, op, t, s, tier), 0
    for k = 1, open.n do
      local i = open[k]
      local e, most = special[i], slots_of(i)
      local cools = e and e.health.cooling
      if most == 0 and not cools then
        return false
      end
      n = n + (cools and 1 or most - FLIGHT.values[i])
    end
    return ahead >= n
  end

  -- The endpoint that a session keeps (second: true), or those that can be chosen from; else why there is none.
  local function find(op, t, s)
    local first = op.tier > 0 and op.tier or tier_now(t)
    local tier = tier_from(first)
    local kept = s and kept_endpoint(s, t, first)
    if not tier and not kept then
      return paused(NOTHING, -1, forever)
    end
    local held = targets[''].held > t.held and targets[''].held or t.held
    held = held > now and held - now or 0
    if floor_seen ~= moves then
      floor_check()
    end
    local open, why, wait, firm, odd
    if kept then
      open, firm = {kept, n = 1}, 0
      why, wait = obstacle(kept, t, s, held, lease_wait())
      open.n = why and 0 or 1
    elseif held > 0 then
      open = {n = 0}
      why, wait, firm = why_none(op, t, s, tier, held)
    else
      open, odd = candidates(op, t, s, tier)
      if open.n == 0 then
        why, wait, firm = why_none(op, t, s, tier, 0)
      elseif not s and (special[open[1]] or slots_of(open[1]) > 0) and is_for_others(op, t, s, tier) then
        open, why, wait, firm = {n = 0}, SLOTS, AGAIN, 0
      end
    end
    local floor = vars.below > 0 and floor_wait() or 0
    if open.n == 0 and why ~= NOTHING and (floor == 0 or wait <= floor) then
      return paused(why, wait, firm)
    elseif floor > 0 then
      return paused(FLOOR, floor, 0)
    elseif open.n == 0 then
      return paused(NOTHING, -1, 0)
    end
    return open, kept, tier, odd
  end

  return find
end)()
