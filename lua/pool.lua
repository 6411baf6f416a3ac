-- pool, the last piece: what operators and agents see, and the operations of a batch, one after the other.
--
-- Why atomic: NEXT chooses, counts and issues in one step, REPORT judges and counts in one, so in-flight never drifts.
local reply = {}

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
    h.n, health.failures(h), get(FLIGHT, e.index), get(TICKETS, e.index), held, #quota) .. table.concat(quota)
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
    parts[#parts + 1] = pack_fields('<d', get(TICKETS, i))
    set(TICKETS, i, 0)
  end
  vars.from, vars.cooldowns, vars.cooled, vars.tickets, vars.above, vars.good, vars.back = now, 0, 0, 0, 0, 0, 0
  vars.least = vars.active
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

-- ---- the batch ----

do
  local NEXT, REPORT, UNDO, SHOW, NUMBERS, ENABLE, PROBE, PROBER, LEAVE = 1, 2, 3, 4, 5, 6, 7, 8, 9
  local NONE = {}
  local read = {}
  -- What is to be taken with the endpoint.
  local function read_permits(n)
    local p = {before = {}, behind = {}}
    for k = 1, n do
      local has_gap
      has_gap, p.before[k], at = unpack_fields('<BHc0', program, at)
      if has_gap == 1 then
        p.behind[k], at = unpack_fields('<Hc0', program, at)
      end
    end
    p.own, p.most, p.program, at = unpack_fields('<HdI4c0', program, at)
    return p
  end
  read[NEXT] = function()
    local tier, waiter, arrival, target, session, n_keys, n, skip
    tier, waiter, arrival, target, session, n_keys, n, at = unpack_fields('<Bc8dHc0Hc0HH', program, at)
    skip = n > 0 and {} or NONE
    for i = 1, n do
      skip[i], at = unpack_fields('<H', program, at)
    end
    return {kind = NEXT, tier = tier, waiter = waiter, arrival = arrival, target = target, session = session, skip = skip,
      permits = n_keys > 0 and read_permits(n_keys)}
  end
  read[REPORT] = function()
    local ticket, outcome, status, hint, n, quota
    ticket, outcome, status, hint, n, at = unpack_fields('<Hc0BHdB', program, at)
    quota = n > 0 and {} or NONE
    for i = 1, n do
      local q = {}
      q.name, q.limit, q.left, q.absolute, q.reset, at = unpack_fields('<Bc0ddBd', program, at)
      quota[i] = q
    end
    return {kind = REPORT, seq = serial_of(ticket), outcome = outcome, status = status, hint = hint, quota = quota}
  end
  read[UNDO] = function()
    local seq
    seq, at = unpack_fields('<d', program, at)
    return {kind = UNDO, seq = seq}
  end
  read[LEAVE] = function()
    local waiter
    waiter, at = unpack_fields('<c8', program, at)
    return {kind = LEAVE, waiter = waiter}
  end
  read[ENABLE] = function()
    local endpoint
    endpoint, at = unpack_fields('<H', program, at)
    return {kind = ENABLE, endpoint = endpoint}
  end
  read[PROBE] = function()
    local endpoint, began, result
    endpoint, began, result, at = unpack_fields('<HdB', program, at)
    return {kind = PROBE, endpoint = endpoint, began = began, result = result}
  end
  read[PROBER] = function()
    local agent, ttl, room
    agent, ttl, room, at = unpack_fields('<c16dH', program, at)
    return {kind = PROBER, agent = agent, ttl = ttl, room = room}
  end
  read[SHOW] = function()
    return {kind = SHOW}
  end
  read[NUMBERS] = function()
    return {kind = NUMBERS}
  end

  local run = {
    [NEXT] = next_endpoint,
    [REPORT] = function(op)
      return pack_fields('<B', report(op))
    end,
    [UNDO] = function(op)
      undo(op.seq)
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

  if not secret then
    secret = sub(program, -16)
    call('HSET', pool, '#', secret)
  end
  -- What the batch needs is read at once.
  local ops = {}
  do
    local serials, reported, asks = {}, {}, false
    for i = 1, n_ops do
      local kind
      kind, at = unpack_fields('<B', program, at)
      local op = read[kind]()
      serials[#serials + 1] = op.seq
      asks = asks or kind == NEXT or kind == SHOW
      ops[i] = op
    end
    record.read(serials)
    for k = 1, #serials do
      local r = records[serials[k]]
      reported[#reported + 1] = r and r.index or nil
    end
    endpoints_read(reported)
    if asks and rule.kind == 1 then
      account.read_all()
    end
  end
  for i = 1, n_ops do
    reply[i] = run[ops[i].kind](ops[i])
  end
end
floor_check()

do
  local fields = {}
  for i, e in pairs(endpoints) do
    if e.dirty then
      local quality = e.health.n * 64 + health.failures(e.health)
      if quality ~= get(QUALITY, i) then
        set(QUALITY, i, quality)
      end
      fields[#fields + 1], fields[#fields + 2] = 'e' .. e.id, endpoint_text(e)
    end
  end
  for id, text in pairs(strangers) do
    fields[#fields + 1], fields[#fields + 2] = 'o' .. id, text
  end
  for k = 1, #columns do
    if columns[k].n_dirty > 0 or is_new then
      fields[#fields + 1], fields[#fields + 2] = columns[k].field, column_text(columns[k])
    end
  end
  if is_new then
    fields[#fields + 1], fields[#fields + 2] = 'r', roster
  end
  if special_dirty then
    fields[#fields + 1], fields[#fields + 2] = 'S', specials_text()
  end
  for name, a in pairs(accounts) do
    if a.dirty then
      fields[#fields + 1], fields[#fields + 2] = 'a' .. name, account.text(a)
    end
  end
  -- What lasts is written once an hour; with an entry that never ends no key is made anew without it, and with one of more than
  -- 64 bytes Redis looks none up in a list.
  if (vars.dirty or #fields > 0) and now - vars.kept > HOUR then
    vars.kept = now
    local lasts = string.rep('-', 65)
    call('HSET', pool .. 'i', lasts, '')
    call('ZADD', pool .. 'l', '+inf', lasts)
    call('HSET', pool, '=', write_vars())
    call('PEXPIRE', pool, MONTH_MS)
    call('PEXPIRE', pool .. 'i', MONTH_MS)
    call('PEXPIRE', pool .. 'l', MONTH_MS)
  end
  if vars.dirty or #fields > 0 then
    fields[#fields + 1], fields[#fields + 2] = '=', write_vars()
  end
  for i = 1, #target_order do
    local text = target.save(target_order[i])
    if text then
      fields[#fields + 1], fields[#fields + 2] = 't', text
    end
  end
  call_with('HSET', pool, fields)
  for name, stop in pairs(remembered) do
    call('ZADD', pool .. 'T', 'GT', format('%.0f', stop), name)
  end
  if next(remembered) then
    call('ZREMRANGEBYSCORE', pool .. 'T', '-inf', format('%.0f', now))
    call('PEXPIRE', pool .. 'T', MONTH_MS)
  end
end
do
  local fresh = {}
  for i = 1, #added do
    local r = records[added[i]]
    if r then
      fresh[#fresh + 1], fresh[#fresh + 2] = format('%d', r.seq), record.text(r)
    end
  end
  if #fresh > 0 then
    call('HSET', pool .. 'i', unpack(fresh))
    call('ZADD', pool .. 'l', unpack(leases))
  end
  if #removed > 0 then
    call('HDEL', pool .. 'i', unpack(removed))
  end
  if #ended > 0 then
    call('ZREM', pool .. 'l', unpack(ended))
  end
  if #given_back > 0 then
    call('ZREM', pool .. 'x', unpack(given_back))
  end
end
return pack_fields('<c8dI2', stamp, now, #events) .. table.concat(events) .. table.concat(reply)
end)()
