-- pool_others: what operators, probers and agents themselves ask; made only in a batch that has one of these.
--
-- Why atomic: what is shown, and what is counted since the last report, is of one instant.
local function other_operations()
  local UNDO, SHOW, NUMBERS, ENABLE, PROBE, PROBER, LEAVE = 3, 4, 5, 6, 7, 8, 9

  local function show_endpoint(e)
    local h = e.health
    local a = rule.kind == 1 and account.of(e.index) or nil
    local held, quota = a and account.wait(a) or 0, {}
    for i = 1, a and #a or 0 do
      local q = a[i]
      if q.reset > now then
        quota[#quota + 1] = pack_fields('<B', #q.name) .. q.name .. pack_fields('<ddd', q.limit, q.left, q.reset - now)
      end
    end
    return pack_fields('<BBdBBBdddB', e.disabled, h.cooling and 1 or 0, h.cooling and health.wait(h, rule.health == 1) or 0, h.level,
      h.n, health.failures(h), FLIGHT.values[e.index], TICKETS.values[e.index], held, #quota) .. table.concat(quota)
  end

  -- What k:p{POOL}h has, by the endpoint's id: the cooldown of the last probe, when it was due, when it was over, what it found.
  local FOUND = '<dddB'
  local function probes()
    local flat, all = call('HGETALL', pool .. 'h'), {}
    for i = 1, #flat, 2 do
      local began, due, over, result = unpack_fields(FOUND, flat[i + 1])
      all[flat[i]] = {began = began, due = due, over = over, result = result}
    end
    return all
  end

  local function show_probes()
    local all, n, parts = probes(), 0, {}
    for i = 1, n_endpoints do
      local p = all[id_of(i)]
      if p and p.result > 0 then
        n = n + 1
        parts[n] = pack_fields('<I2Bd', i, p.result, now > p.over and now - p.over or 0)
      end
    end
    return pack_fields('<I2', n) .. table.concat(parts)
  end

  -- Of each target of which there is something to tell: its tier, hold, and endpoints that cool there.
  local function show_target(name)
    local t, cools = target.of(name), {}
    for i = 1, n_endpoints do
      local s = t.cools[i] and seen_of(t, i)
      if s then
        seen_advance(t, i, s)
        if s.health.cooling then
          cools[#cools + 1] = pack_fields('<I2d', i, health.wait(s.health, false))
        end
      end
    end
    local held = t.held > now and t.held - now or 0
    return pack_fields('<I2', #name) .. name .. pack_fields('<BdI2', tier_now(t), held, #cools) .. table.concat(cools)
  end

  local function numbers_text()
    for _, e in pairs(special) do
      if e.health.cooling then
        settle(e)
        e.dirty = true
      end
    end
    vars.dirty = true
    return pack_fields('<dddddddddd', vars.from, now, vars.cooldowns, vars.cooled, vars.least, vars.tickets, vars.above,
      vars.good, vars.back, n_endpoints)
  end

  local function show()
    forget()
    floor_check()
    local op = {tier = 0, skip = {}, waiter = NOBODY, arrival = 0}
    local open, why, wait = find(op, targets[''])
    local names = call('ZRANGEBYSCORE', pool .. 'T', '(' .. format('%.0f', now), '+inf', 'LIMIT', 0, 100)
    local known = {}
    for i = 1, #names do
      known[names[i]] = true
    end
    for name in pairs(remembered) do
      if not known[name] then
        names[#names + 1] = name
      end
    end
    local parts = {numbers_text(), pack_fields('<ddBd', vars.all_cooldowns, vars.all_cooled, open and 0 or why, open and 0 or wait),
      pack_fields('<I2', n_endpoints)}
    endpoints_read_all()
    for i = 1, n_endpoints do
      parts[#parts + 1] = show_endpoint(endpoint_of(i))
    end
    if targets[''].held > now or tier_now(targets['']) > 1 then
      names[#names + 1] = ''
    end
    parts[#parts + 1] = pack_fields('<I2', #names)
    for i = 1, #names do
      if names[i] == '' then
        local t = targets['']
        parts[#parts + 1] = pack_fields('<I2BdI2', 0, tier_now(t), t.held > now and t.held - now or 0, 0)
      else
        parts[#parts + 1] = show_target(names[i])
      end
    end
    if rule.health == 1 then
      parts[#parts + 1] = show_probes()
    end
    return table.concat(parts)
  end

  -- Endpoints that no definition of the last day has had are forgotten.
  local function forget_endpoints()
    if call('HLEN', pool) <= 2 * n_endpoints + 64 then
      return
    end
    local fields = call('HGETALL', pool)
    for i = 1, #fields, 2 do
      local used = sub(fields[i], 1, 1) == 'o' and unpack_fields('<d', fields[i + 1])
      if used and used + 86400000000 < now then
        call('HDEL', pool, fields[i])
      end
    end
  end

  -- The five numbers of the time since the last report, once that is as long as `report` says, for the agent that asks first.
  local function numbers()
    floor_check()
    if now - vars.from < rule.report then
      return pack_fields('<B', 0)
    end
    forget_endpoints()
    local parts = {pack_fields('<B', 1), numbers_text()}
    for i = 1, n_endpoints do
      parts[#parts + 1] = pack_fields('<d', TICKETS.values[i])
      TICKETS.values[i] = 0
      row_changed(i)
    end
    vars.from, vars.cooldowns, vars.cooled, vars.tickets, vars.above, vars.good, vars.back = now, 0, 0, 0, 0, 0, 0
    vars.least, TICKETS.dirty = vars.active, true
    return table.concat(parts)
  end

  -- The operator says that it is to be used again.
  local function enable(op)
    local e = op.endpoint <= n_endpoints and endpoint_of(op.endpoint)
    if not e then
      return pack_fields('<B', 0)
    end
    local was = e.disabled
    e.disabled, e.auths, tiers_here, moves = 0, 0, nil, moves + 1
    touch(e)
    return pack_fields('<B', was)
  end

  -- What a probe of the cooldown that began after ticket `began` found.
  local PASSED_PROBE = 1
  local function probe(op)
    local e = op.endpoint <= n_endpoints and endpoint_of(op.endpoint)
    local h = e and e.health
    if not h or not h.cooling or h.began ~= op.began then
      return pack_fields('<B', 0)
    end
    local text = call('HGET', pool .. 'h', e.id)
    local due = text and select(2, unpack_fields(FOUND, text)) or now
    call('HSET', pool .. 'h', e.id, pack_fields(FOUND, op.began, due, now, op.result))
    call('PEXPIRE', pool .. 'h', MONTH_MS)
    if op.result == PASSED_PROBE then
      health.set(h, PROBED, true)
      moves = moves + 1
      if rule.direct == 1 and health.wait(h, true) == 0 then
        endpoint_back(e)
      end
      touch(e)
    end
    return pack_fields('<B', 1)
  end

  -- The endpoints in cooldown whose probe is due, at most `room` of them, those first that wait longest; for the one agent that
  -- probes them until `ttl` has passed without it. 0: another does, 1: these are all of them, 2: more are due. A tenth of the interval early is not too early, or one turn would be missed.
  local function prober(op)
    local key, found, due, fields, parts = pool .. 'p', pool .. 'h', {}, {}, {}
    local holder = call('GET', key)
    if holder and holder ~= op.agent then
      return pack_fields('<BI2', 0, 0)
    end
    call('SET', key, op.agent, 'PX', format('%d', op.ttl / 1000))
    if call('HLEN', found) > n_endpoints + 64 then
      call('DEL', found)
    end
    local all, list = probes(), specials()
    for k = 1, #list do
      local e = special[list[k]]
      local p = all[e.id]
      local last = p and p.began == e.health.began and p.due or 0
      if e.health.cooling and not is_off(e) and (last + 0.9 * rule.every <= now or last > now) then
        due[#due + 1] = {index = e.index, last = last, over = p and p.over or 0, result = p and p.result or 0}
      end
    end
    if #due > op.room then
      table.sort(due, function(a, b)
        return a.last < b.last or (a.last == b.last and a.index < b.index)
      end)
    end
    for i = 1, #due < op.room and #due or op.room do
      local d = due[i]
      local e = endpoints[d.index]
      parts[i] = pack_fields('<I2d', d.index, e.health.began)
      fields[2 * i - 1], fields[2 * i] = e.id, pack_fields(FOUND, e.health.began, now, d.over, d.result)
    end
    if #parts > 0 then
      call('HSET', found, unpack(fields))
      call('PEXPIRE', found, MONTH_MS)
    end
    return pack_fields('<BI2', #due > op.room and 2 or 1, #parts) .. table.concat(parts)
  end

  local read = {
    [UNDO] = function()
      local seq
      seq, at = unpack_fields('<d', program, at)
      return {seq = seq, key = format('%d', seq)}
    end,
    [LEAVE] = function()
      local waiter
      waiter, at = unpack_fields('<c8', program, at)
      return {waiter = waiter}
    end,
    [ENABLE] = function()
      local endpoint
      endpoint, at = unpack_fields('<H', program, at)
      return {endpoint = endpoint}
    end,
    [PROBE] = function()
      local endpoint, began, result
      endpoint, began, result, at = unpack_fields('<HdB', program, at)
      return {endpoint = endpoint, began = began, result = result}
    end,
    [PROBER] = function()
      local agent, ttl, room
      agent, ttl, room, at = unpack_fields('<c16dH', program, at)
      return {agent = agent, ttl = ttl, room = room}
    end}

  local run = {
    [UNDO] = function(op)
      undo(op.key, op.seq)
      return ''
    end,
    [LEAVE] = function(op)
      tier_from(1)
      for tier in pairs(tiers_here) do
        line.leave(op.waiter, tier)
      end
      return ''
    end,
    [SHOW] = show, [NUMBERS] = numbers, [ENABLE] = enable, [PROBE] = probe, [PROBER] = prober}

  local NONE = {}
  return {run = run, read = function(kind)
    return read[kind] and read[kind]() or NONE
  end}
end

